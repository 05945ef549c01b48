//! Paths into a JSON document: `a.b.*.c` or `/a/b/*/c`.
//!
//! `*` stands for one segment. Case is ignored, and array positions may be left out, so `items.sku` reaches every
//! item's. A document is walked with a [`Cursor`], which holds how far each path has matched.

/// A list of parsed paths.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths(Vec<Vec<String>>);

/// For each path still alive: its number, and how many of its segments have matched.
#[derive(Clone, Debug, Default)]
pub(super) struct Cursor(Vec<(usize, usize)>);

impl Paths {
    /// Adds a path. `None` if it has an empty segment.
    pub(super) fn add(&mut self, path: &str) -> Option<()> {
        let segments = parse(path);
        if segments.iter().any(String::is_empty) {
            return None;
        }
        self.0.push(segments);
        Some(())
    }

    /// The cursor at the root of a document.
    pub(super) fn root(&self) -> Cursor {
        Cursor((0..self.0.len()).map(|path| (path, 0)).collect())
    }

    /// The cursor one object member further down.
    pub(super) fn member(&self, at: &Cursor, name: &str) -> Cursor {
        Cursor(
            at.0.iter()
                .filter(|state| self.accepts(**state, name))
                .map(|&(path, n)| (path, n + 1))
                .collect(),
        )
    }

    /// The cursor one array element further down.
    pub(super) fn element(&self, at: &Cursor, index: usize) -> Cursor {
        let mut states = self.member(at, &index.to_string()).0;
        states.extend_from_slice(&at.0);
        states.sort_unstable();
        states.dedup();
        Cursor(states)
    }

    /// Whether some path ends here.
    pub(super) fn hit(&self, at: &Cursor) -> bool {
        at.0.iter()
            .any(|&(path, n)| self.0.get(path).is_some_and(|segments| segments.len() == n))
    }

    fn accepts(&self, (path, n): (usize, usize), name: &str) -> bool {
        let segment = self.0.get(path).and_then(|segments| segments.get(n));
        segment.is_some_and(|segment| segment == "*" || *segment == name.to_lowercase())
    }
}

fn parse(path: &str) -> Vec<String> {
    let path = path.to_lowercase();
    match path.strip_prefix('/') {
        Some(pointer) => pointer
            .split('/')
            .map(|s| s.replace("~1", "/").replace("~0", "~"))
            .collect(),
        None => path.split('.').map(str::to_owned).collect(),
    }
}
