//! The documentation says what is true: the tests, files, codes, metrics, commands and settings that it names exist.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate_core::{Code, Kind, Retry};

/// A page, by its path from the root.
struct Page {
    path: PathBuf,
    text: String,
}

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Files below a folder that end so, in order.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, end));
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Every page that people read: those at the root, `docs/`, `examples/` and the pages of the error codes.
fn pages() -> Vec<Page> {
    let root = root();
    let at_root = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = at_root
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .collect();
    for folder in ["docs", "examples", "crates/core/src/error"] {
        paths.extend(files(&root.join(folder), ".md"));
    }
    assert!(paths.len() > 40, "{} pages", paths.len());
    let page = |path: PathBuf| Page {
        text: fs::read_to_string(&path).unwrap(),
        path: path.strip_prefix(&root).unwrap().to_owned(),
    };
    paths.into_iter().map(page).collect()
}

/// Lines of a page outside fenced blocks (`false`) and inside of them (`true`).
fn lines(text: &str) -> Vec<(bool, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else {
            lines.push((fenced, line));
        }
    }
    lines
}

/// What stands between backticks, outside fenced blocks.
fn spans(text: &str) -> Vec<&str> {
    let prose = lines(text)
        .into_iter()
        .filter(|(fenced, _)| !fenced)
        .map(|(_, line)| line);
    prose
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

/// Fails with every complaint at once.
fn none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

// ---- names of tests ----

/// `Some` when the span claims to name a proof: whether that proof exists.
fn proof(span: &str) -> Option<Result<(), String>> {
    if let Some(promise) = span.strip_prefix("demo: ") {
        let audit = read("crates/cli/src/demo/audit/promises.rs");
        let known = audit.contains(&format!("\"{promise}\""));
        return Some(known.then_some(()).ok_or_else(|| "no such promise".to_owned()));
    }
    if let Some(checker) = span.strip_prefix("checker ") {
        return Some(is_checked(checker));
    }
    let parts: Vec<_> = span.split("::").collect();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if parts.len() < 2 || !parts.iter().all(|p| !p.is_empty() && p.chars().all(plain)) {
        return None;
    }
    match parts[0] {
        "conformance" => Some(is_case(&parts[1..])),
        // A path of Rust, unless it ends as only a test does.
        "tidegate" if parts[parts.len() - 1].matches('_').count() < 2 => None,
        "tidegate" => Some(is_test("tidegate", &parts[1..])),
        krate => krate
            .strip_prefix("tidegate-")
            .map(|dir| is_test(dir, &parts[1..])),
    }
}

/// A checker of the simulator: its id is a literal there.
fn is_checked(id: &str) -> Result<(), String> {
    let quoted = format!("\"{id}\"");
    let sources = files(&root().join("crates/sim/src"), ".rs");
    let mut texts = sources
        .iter()
        .filter(|path| !path.ends_with("canary.rs"))
        .map(|path| fs::read_to_string(path).unwrap());
    let known = texts.any(|text| text.contains(&quoted));
    known.then_some(()).ok_or_else(|| "no such checker".to_owned())
}

/// A case of a suite, which the memory store and SQLite both run.
fn is_case(parts: &[&str]) -> Result<(), String> {
    let [suite, case] = parts else {
        return Err("a case is named `conformance::SUITE::CASE`".into());
    };
    let sources = [
        format!("crates/conformance/src/{suite}.rs"),
        format!("crates/conformance/src/{suite}/mod.rs"),
    ];
    let source = sources.iter().find(|path| root().join(path).exists());
    let source = read(source.ok_or("no such suite")?);
    let listed = source.lines().map(str::trim).any(|line| {
        let entry = line.trim_end_matches(',');
        entry == *case || entry.ends_with(&format!("::{case}"))
    });
    let run = ["memory", "sqlite"].iter().all(|store| {
        let test = read(&format!("crates/conformance/tests/{suite}_{store}.rs"));
        test.contains(&format!("{suite}_suite!(")) || test.contains(&format!("{suite}_cases!("))
    });
    match (listed, run) {
        (true, true) => Ok(()),
        (false, _) => Err("the suite does not list it".into()),
        (true, false) => Err("a store does not run the suite".into()),
    }
}

/// A test of a crate, below `src` or in a file of its `tests`, by the path that the test runner prints.
fn is_test(krate: &str, parts: &[&str]) -> Result<(), String> {
    let (name, modules) = parts.split_last().ok_or("no test is named")?;
    let base = root().join("crates").join(krate);
    let (mut file, mut folder, modules) = match modules.split_first() {
        Some((first, rest)) if base.join(format!("tests/{first}.rs")).exists() => {
            (base.join(format!("tests/{first}.rs")), base.join("tests"), rest)
        }
        Some((first, rest)) if base.join(format!("tests/{first}/main.rs")).exists() => (
            base.join(format!("tests/{first}/main.rs")),
            base.join("tests").join(first),
            rest,
        ),
        _ => (base.join("src/lib.rs"), base.join("src"), modules),
    };
    for module in modules {
        let candidates = [
            folder.join(format!("{module}.rs")),
            folder.join(module).join("mod.rs"),
        ];
        match candidates.into_iter().find(|path| path.exists()) {
            Some(found) => file = found,
            None if text_of(&file)?.contains(&format!("mod {module} {{")) => {}
            None => return Err(format!("no module {module} in {}", file.display())),
        }
        folder = folder.join(module);
    }
    let text = text_of(&file)?;
    let entry = format!("{name}: \"");
    let listed = text.lines().any(|line| line.trim_start().starts_with(&entry));
    (listed || is_run(&text, name))
        .then_some(())
        .ok_or_else(|| format!("no test {name} in {}", file.display()))
}

fn text_of(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}

/// Whether a function of that name is a test, and not an ignored one.
fn is_run(text: &str, name: &str) -> bool {
    let Some(at) = text.find(&format!("fn {name}(")) else {
        return false;
    };
    let line = text[..at].rfind('\n').unwrap_or(0);
    let above = text[..line].lines().rev();
    let attributes: Vec<_> = above
        .map(str::trim)
        .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
        .collect();
    let has = |start: &str| attributes.iter().any(|line| line.starts_with(start));
    (has("#[test]") || has("#[tokio::test")) && !has("#[ignore")
}

#[test]
fn every_test_that_the_docs_name_exists() {
    let mut complaints = Vec::new();
    let mut named = BTreeSet::new();
    for page in pages() {
        for span in spans(&page.text) {
            match proof(span) {
                Some(Ok(())) => _ = named.insert(span.to_owned()),
                Some(Err(why)) => complaints.push(format!("{}: `{span}`: {why}", page.path.display())),
                None => {}
            }
        }
    }
    none(&complaints);
    assert!(named.len() > 100, "only {} tests are named", named.len());
}

#[test]
fn a_name_that_proves_nothing_is_noticed() {
    for wrong in [
        "tidegate-core::lease::tests::l1_no_such_test",
        "tidegate-core::nowhere::a_test_of_no_module",
        "tidegate-conformance::inbox_sqlite::doomed_process",
        "tidegate-cli::kill_points::relay_at_no_point",
        "tidegate::drain::tests::no_such_test",
        "conformance::lease::l_001_no_such_case",
        "conformance::outbox::enqueue",
        "conformance::nothing::o_001_events_come_back_as_they_went_in",
        "demo: pigs can fly",
        "checker O99",
    ] {
        assert!(matches!(proof(wrong), Some(Err(_))), "{wrong}");
    }
    for path in ["tidegate::publish", "tidegate_core::lease", "Lease::with", "o1"] {
        assert_eq!(proof(path), None, "{path}");
    }
}

/// Sections of a page: the first word of each heading of that level, and the text below it.
fn sections<'t>(text: &'t str, heading: &str) -> Vec<(&'t str, &'t str)> {
    let parts = text.split(heading).skip(1);
    let cut = |part: &'t str| {
        let end = part.find("\n## ").unwrap_or(part.len());
        let (title, body) = part[..end].split_once('\n').unwrap_or((part, ""));
        (title.split([' ', ':']).next().unwrap_or(title), body)
    };
    parts.map(cut).collect()
}

fn has_proof(text: &str) -> bool {
    spans(text).iter().any(|span| proof(span).is_some())
}

/// An entry either names a proof or says that there is none, or both when it says what is missing.
fn honest(id: &str, body: &str) -> Option<String> {
    let (proved, missing) = (
        has_proof(body),
        body.contains("not yet") || body.contains("Not yet"),
    );
    (!proved && !missing).then(|| format!("{id} names no test and does not say `not yet`"))
}

fn ids(letter: char, count: u32) -> impl Iterator<Item = String> {
    (1..=count).map(move |n| format!("{letter}{n}"))
}

#[test]
fn every_parity_row_has_its_tests_or_says_not_yet() {
    let page = read("docs/parity.md");
    let rows: Vec<_> = ids('A', 15).chain(ids('B', 22)).collect();
    let found = sections(&page, "\n### ");
    let named: Vec<_> = found.iter().map(|(id, _)| (*id).to_owned()).collect();
    assert_eq!(named, rows, "rows of docs/parity.md, in order");
    none(
        &found
            .iter()
            .filter_map(|(id, body)| honest(id, body))
            .collect::<Vec<_>>(),
    );

    let none_yet = found
        .iter()
        .filter(|(_, body)| body.contains("Tests: not yet"))
        .count();
    let partly = found
        .iter()
        .filter(|(_, body)| body.contains("- Missing: "))
        .count();
    let proved = rows.len() - none_yet - partly;
    let sum = format!(
        "Of {} rows, {proved} are proved, {partly} partly and {none_yet} not yet.",
        rows.len()
    );
    assert!(page.contains(&sum), "docs/parity.md should say: {sum}");
}

#[test]
fn every_invariant_has_its_tests_or_says_not_yet() {
    let page = read("docs/guarantees.md");
    let counts = [
        ('O', 5),
        ('C', 6),
        ('L', 10),
        ('D', 10),
        ('R', 5),
        ('S', 3),
        ('Q', 4),
    ];
    let expected: BTreeSet<_> = counts
        .into_iter()
        .flat_map(|(letter, n)| ids(letter, n))
        .collect();
    let found = sections(&page, "\n### ");
    let named: BTreeSet<_> = found.iter().map(|(id, _)| (*id).to_owned()).collect();
    assert_eq!(named, expected, "invariants of docs/guarantees.md");
    assert_eq!(found.len(), expected.len(), "an invariant stands twice");
    none(
        &found
            .iter()
            .filter_map(|(id, body)| honest(id, body))
            .collect::<Vec<_>>(),
    );
}

// ---- links ----

/// Targets of the links of a page.
fn links(text: &str) -> Vec<&str> {
    let prose = lines(text).into_iter().filter(|(fenced, _)| !fenced);
    prose
        .flat_map(|(_, line)| line.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

/// A heading as a browser names it.
fn anchor(heading: &str) -> String {
    let kept = heading
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn has_anchor(text: &str, wanted: &str) -> bool {
    let headings = lines(text)
        .into_iter()
        .filter(|(fenced, line)| !fenced && line.starts_with('#'));
    headings
        .map(|(_, line)| anchor(line.trim_start_matches('#')))
        .any(|name| name == wanted)
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    let root = root();
    let mut complaints = Vec::new();
    for page in pages() {
        let here = root.join(&page.path);
        for link in links(&page.text) {
            let (path, heading) = link.split_once('#').map_or((link, None), |(p, h)| (p, Some(h)));
            let target = match path {
                "" => here.clone(),
                path => here.parent().unwrap().join(path),
            };
            let good = match heading {
                None => target.exists(),
                Some(heading) => fs::read_to_string(&target).is_ok_and(|text| has_anchor(&text, heading)),
            };
            if !good {
                complaints.push(format!("{}: ({link}) leads nowhere", page.path.display()));
            }
        }
    }
    none(&complaints);
}

#[test]
fn every_page_of_the_docs_is_in_the_index() {
    let root = root();
    let index = read("docs/README.md");
    let linked: BTreeSet<_> = links(&index)
        .into_iter()
        .map(|link| link.split('#').next().unwrap().to_owned())
        .collect();
    let docs = root.join("docs");
    let missing = files(&docs, ".md").into_iter().filter_map(|path| {
        let path = path.strip_prefix(&docs).unwrap().to_string_lossy().into_owned();
        let expected = path != "README.md" && path != "adr/0000-template.md";
        (expected && !linked.contains(&path)).then(|| format!("docs/README.md does not lead to {path}"))
    });
    none(&missing.collect::<Vec<_>>());
}

// ---- error codes ----

fn words(kind: Kind, retry: Retry) -> (&'static str, &'static str) {
    let kind = match kind {
        Kind::Invalid => "invalid",
        Kind::Unavailable => "unavailable",
        Kind::Unusable => "unusable",
        Kind::Inconsistent => "inconsistent",
        Kind::Handler => "handler",
        Kind::Internal => "internal",
    };
    let retry = match retry {
        Retry::Never => "no",
        Retry::Backoff => "with back-off",
    };
    (kind, retry)
}

#[test]
fn every_error_code_has_a_page_and_its_row_says_what_the_code_says() {
    let table = read("docs/errors.md");
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| [TG")).collect();
    let expected = Code::ALL.iter().map(|code| {
        let (id, title) = (code.id(), code.title());
        let (kind, retry) = words(code.kind(), code.retry());
        let page = read(&format!("crates/core/src/error/{id}.md"));
        assert!(
            page.starts_with(&format!("# {id}: {title}\n")),
            "{id}: the heading"
        );
        for part in ["**Did it happen?**", "**What to do.**"] {
            assert!(page.contains(part), "{id} has no part {part}");
        }
        format!("| [{id}](../crates/core/src/error/{id}.md) | {title} | {kind} | {retry} |")
    });
    assert_eq!(rows, expected.collect::<Vec<_>>());
    let pages = files(&root().join("crates/core/src/error"), ".md").len();
    assert_eq!(pages, Code::ALL.len(), "pages without a code");
}

// ---- metrics ----

/// Literals of the whole form `"tidegate_..."` in the crates that count: names of metrics.
fn metrics_in_code() -> BTreeSet<String> {
    let root = root();
    let mut names = BTreeSet::new();
    for krate in ["tidegate", "cli"] {
        for path in files(&root.join("crates").join(krate).join("src"), ".rs") {
            if path.components().any(|part| part.as_os_str() == "tests") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let literals = text.split('"').filter(|literal| literal.starts_with("tidegate_"));
            let is_name = |literal: &&str| literal.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            names.extend(literals.filter(is_name).map(str::to_owned));
        }
    }
    names
}

#[test]
fn every_metric_is_documented_and_nothing_else_is() {
    let page = read("docs/metrics.md");
    let rows: Vec<Vec<_>> = page
        .lines()
        .filter(|line| line.starts_with("| `tidegate_"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let documented: Vec<_> = rows
        .iter()
        .map(|row| row[1].trim_matches('`').to_owned())
        .collect();
    let set: BTreeSet<_> = documented.iter().cloned().collect();
    assert_eq!(set, metrics_in_code());
    assert_eq!(set.len(), documented.len(), "a metric stands twice");
    for row in &rows {
        assert_eq!(row.len(), 7, "name, kind, unit, labels, meaning: {row:?}");
        let counter = row[1].trim_matches('`').ends_with("_total");
        assert_eq!(row[2] == "counter", counter, "{row:?}");
        assert!(["counter", "gauge", "histogram"].contains(&row[2]), "{row:?}");
    }
}

// ---- commands and settings ----

/// Commands that pages tell people to type.
fn typed(page: &Page) -> Vec<String> {
    let fenced = lines(&page.text).into_iter().filter(|(fenced, _)| *fenced);
    let fenced = fenced.map(|(_, line)| line.trim_start().trim_start_matches("$ "));
    let all = fenced.chain(spans(&page.text));
    all.filter_map(|line| line.strip_prefix("tidegate "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_that_the_docs_show_exists() {
    let reference = read("docs/commands.md");
    let headings: BTreeSet<_> = reference
        .lines()
        .filter(|line| line.starts_with("##"))
        .map(|line| {
            line.trim_start_matches(['#', ' '])
                .trim_start_matches("tidegate")
                .trim()
        })
        .collect();
    let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let mut complaints = Vec::new();
    for page in pages() {
        for line in typed(&page) {
            let mut words = line
                .split_whitespace()
                .take_while(|w| is_word(w) && !w.starts_with('-'));
            let Some(first) = words.next() else { continue };
            let deeper = headings.iter().any(|h| h.starts_with(&format!("{first} ")));
            let command = match words.next() {
                Some(second) if deeper => format!("{first} {second}"),
                _ => first.to_owned(),
            };
            if !headings.contains(command.as_str()) {
                complaints.push(format!(
                    "{}: there is no `tidegate {command}`",
                    page.path.display()
                ));
            }
        }
    }
    none(&complaints);
}

#[test]
fn every_budget_of_the_testing_page_is_read_by_a_test() {
    let page = read("docs/testing.md");
    let named: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `TIDEGATE_")?.split('`').next())
        .collect();
    assert!(named.len() >= 4, "{named:?}");
    let sources = files(&root().join("crates"), ".rs");
    let texts: Vec<_> = sources
        .iter()
        .filter(|path| !path.ends_with("conformance/tests/docs.rs"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let unread = named.iter().filter(|name| {
        let literal = format!("\"TIDEGATE_{name}\"");
        !texts.iter().any(|text| text.contains(&literal))
    });
    assert_eq!(unread.collect::<Vec<_>>(), [&""; 0], "budgets that nothing reads");
}
