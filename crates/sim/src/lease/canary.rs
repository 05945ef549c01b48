//! Deliberate bugs, each put in at the edge between a machine and its store; each must be caught.

macro_rules! canaries {
    ($($variant:ident = $name:literal by $ids:expr, $doc:literal;)+) => {
        /// A deliberate bug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Canary { $(#[doc = $doc] $variant,)+ }

        impl Canary {
            /// Every canary.
            pub const ALL: &'static [Canary] = &[$(Canary::$variant,)+];

            /// As printed.
            pub fn name(self) -> &'static str {
                match self { $(Canary::$variant => $name,)+ }
            }

            /// The promises of which one must be seen broken.
            pub fn breaks(self) -> &'static [&'static str] {
                match self { $(Canary::$variant => &$ids,)+ }
            }
        }
    };
}

canaries! {
    TrustFromReply = "trust counted from the reply" by ["L1"],
        "A holder's clock stands still while a request is on its way.";
    RenewByName = "renewal by name only" by ["L1", "L7"],
        "A renewal holds whenever somebody holds the scope.";
    ReleaseBeforeDrain = "release before drain" by ["L1"],
        "A holder that is told to stop releases first and ends its work second.";
    EqualTokenAdmitted = "equal token admitted by the fence" by ["L3"],
        "The register opens for an equal token with another nonce.";
    ErrorExtendsTrust = "an error extends trust" by ["L1"],
        "A renewal that failed counts as one that held.";
    CheckThenWrite = "check, then write" by ["L3"],
        "The sink compares when the write is sent, not when it happens.";
    TokensRepeat = "tokens repeat" by ["L2"],
        "A new term gets the token of the last one.";
    StaleReplyTaken = "a stale reply is taken" by ["L1", "L4"],
        "A reply to an earlier attempt counts as one to the current attempt.";
    RenewCreates = "a renewal creates" by ["L7"],
        "Renewing a lease that is not held acquires it.";
    OwnTtl = "a candidate judges by its own ttl" by ["L1", "L8"],
        "A lease counts as expired after the candidate's ttl.";
    FailureIsLoss = "one failed renewal is a loss" by ["L10"],
        "A renewal that failed counts as one that found the lease lost.";
}
