//! Field names: which of them announce something that must not be shown.
//!
//! A name is split into words at punctuation, at changes of case and between letters and digits. A run of up to
//! [`RUN_MAX`] neighbouring words, written together, is looked up: `e-mail`, `eMail` and `email` are one term, and
//! `filename` is not `name`.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Longest run of words that can form one term; `pAsSwOrD` is five.
const RUN_MAX: usize = 6;

/// Personal data and secrets: contact, names, place, person, papers, money, secrets.
const PERSON: &str = "
    email mail mailto phone phonenumber telephone tel mobile mobilenumber cellphone cellnumber msisdn fax
    whatsapp contactnumber emailaddress
    name firstname lastname middlename fullname surname givenname familyname maidenname forename nickname
    displayname username customername contactname holdername legalname fname lname login salutation
    street streetaddress homeaddress postaladdress mailingaddress shippingaddress billingaddress
    addressline line1 line2 city zip zipcode postcode postalcode pincode latitude longitude lat lng
    geolocation geoip
    dob dateofbirth birth birthdate birthday birthplace gender sex nationality ethnicity religion salary
    income diagnosis biometric fingerprintdata useragent imei imsi
    ssn socialsecurity socialsecuritynumber socialinsurancenumber nationalid nationalinsurance nino
    passport passportnumber driverlicense driverslicense driverlicence driverslicence drivinglicense
    drivinglicence licensenumber licencenumber taxid taxnumber tin itin vatnumber vatid aadhaar aadhar
    adhaar aadhaarnumber pan pannumber gstin gst gstnumber voterid uan mrn
    card cardnumber cardno creditcard debitcard ccnumber ccnum cvv cvc csc cardholder iban ifsc ifsccode
    accountnumber accountno acctnumber acctno bankaccount routingnumber sortcode upi upiid vpa
    password passwd passwort pwd pass passphrase passcode pin pinnumber otp totp secret token accesstoken
    refreshtoken idtoken authtoken sessiontoken bearer jwt apikey accesskey secretkey privatekey
    signingkey encryptionkey sharedkey clientsecret credential cred auth authorization authorisation
    cookie sessionid sessionkey sid csrf xsrf signature dsn connectionstring databaseurl
";

/// Hosts and addresses.
const NETWORK: &str = "
    host hostname ip ipv4 ipv6 ipaddress ipaddr addr address remoteaddr clientip peer macaddress
    forwardedfor
";

/// Words after which `name` is the name of a thing: `topic_name`.
const THINGS: &str = "
    action app application attribute bucket category channel class cluster column command constraint
    consumer container currency database db domain env environment event feature field file flag function
    group header image index item job key label lane lease level logger method metric model module
    namespace node package param parameter path plan pod process product program project property queue
    region relation relay repo repository rule schema scope service span stage step stream table tag task
    thread topic type variable worker zone
";

/// Last words of names that tell about a field, not what is in it: `email_count`, `phone_verified`.
const MEASURES: &str = "
    attempts bytes confirmed count enabled length len limit present required size total valid verified
";

static PERSON_SET: LazyLock<HashSet<&str>> = LazyLock::new(|| PERSON.split_whitespace().collect());
static NETWORK_SET: LazyLock<HashSet<&str>> = LazyLock::new(|| NETWORK.split_whitespace().collect());

/// Why a name is sensitive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Class {
    /// It announces personal data or a secret.
    Person,
    /// It announces a host or an address, which may be one of ours.
    Network,
}

/// The terms to look for: the built-in ones and the user's.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    extra: HashSet<String>,
}

impl Names {
    /// Adds a term. `None` if there is no word in it.
    pub(super) fn add(&mut self, field: &str) -> Option<()> {
        let term = words(field).concat();
        if term.is_empty() {
            return None;
        }
        self.extra.insert(term);
        Some(())
    }

    /// What a field of this name holds, if sensitive.
    pub(super) fn class(&self, name: &str) -> Option<Class> {
        let words = words(name);
        if self.person(&words) {
            return Some(Class::Person);
        }
        network(&words).then_some(Class::Network)
    }

    /// Whether some run of the words is a personal term.
    pub(super) fn person(&self, words: &[String]) -> bool {
        (0..words.len()).any(|start| self.person_run(words, start))
    }

    /// Whether the last words, together, are a personal term.
    pub(super) fn person_ending(&self, words: &[String]) -> bool {
        let from = words.len().saturating_sub(RUN_MAX);
        (from..words.len()).any(|start| {
            let term = words.get(start..).unwrap_or_default().concat();
            self.is_term(&term) && !names_thing(&term, words, start)
        })
    }

    fn person_run(&self, words: &[String], start: usize) -> bool {
        runs(words, start).any(|term| self.is_term(&term) && !names_thing(&term, words, start))
    }

    fn is_term(&self, term: &str) -> bool {
        singulars(term).any(|term| PERSON_SET.contains(term) || self.extra.contains(term))
    }
}

/// Whether some run of the words is a network term.
pub(super) fn network(words: &[String]) -> bool {
    (0..words.len())
        .any(|start| runs(words, start).any(|term| singulars(&term).any(|term| NETWORK_SET.contains(term))))
}

/// Whether the name tells about a field rather than holding its content.
pub(super) fn measures(name: &str) -> bool {
    words(name)
        .last()
        .is_some_and(|word| MEASURES.split_whitespace().any(|measure| measure == word))
}

/// The words of a name, in lower case. Masks in it are no words.
pub(super) fn words(name: &str) -> Vec<String> {
    let chars: Vec<char> = without_masks(name).chars().collect();
    let mut words = vec![String::new()];
    for (i, c) in chars.iter().enumerate() {
        if starts_word(&chars, i) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn starts_word(chars: &[char], i: usize) -> bool {
    let before = i.checked_sub(1).and_then(|i| chars.get(i));
    let (Some(before), Some(c)) = (before, chars.get(i)) else {
        return false;
    };
    let humped = before.is_lowercase() || chars.get(i + 1).is_some_and(|next| next.is_lowercase());
    !c.is_alphanumeric() || before.is_numeric() != c.is_numeric() || (c.is_uppercase() && humped)
}

fn without_masks(name: &str) -> String {
    let mut pieces = name.split("[redacted");
    let first = pieces.next().unwrap_or_default();
    let rest = pieces.map(|piece| piece.split_once(']').map_or(piece, |(_, after)| after));
    std::iter::once(first).chain(rest).collect::<Vec<_>>().join(" ")
}

fn runs(words: &[String], start: usize) -> impl Iterator<Item = String> {
    let words = words.get(start..).unwrap_or_default();
    (1..=RUN_MAX.min(words.len())).map(|len| words.iter().take(len).map(String::as_str).collect())
}

fn singulars(term: &str) -> impl Iterator<Item = &str> {
    [Some(term), term.strip_suffix('s'), term.strip_suffix("es")]
        .into_iter()
        .flatten()
}

fn names_thing(term: &str, words: &[String], start: usize) -> bool {
    let owner = start.checked_sub(1).and_then(|i| words.get(i));
    matches!(term, "name" | "names")
        && owner.is_some_and(|owner| THINGS.split_whitespace().any(|thing| thing == owner))
}
