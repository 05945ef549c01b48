//! The rule of a save over a real file.

use tidegate_core::lease::{Nonce, Opened, Token};
use tidegate_core::sweep::scope;

use super::*;
use crate::sqlite::OpenOptions;

struct File {
    db: Database,
    store: Checkpoints,
    _dir: tempfile::TempDir,
}

impl File {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path().join("app.db"), OpenOptions::default()).unwrap();
        Self {
            store: Checkpoints::new(db.clone()),
            db,
            _dir: dir,
        }
    }

    /// Begins a step under a term, opening the fence as the sweeper does.
    async fn begin(&self, token: u64) -> Mark {
        let mark = Mark {
            name: "nightly".into(),
            scope: scope("nightly").unwrap(),
            token: Token(token),
            nonce: Nonce(token.into()),
            version: self.place().await.version,
        };
        let fences = self.store.fences();
        let opened = fences
            .open_fence(mark.scope.clone(), mark.token, mark.nonce)
            .await;
        assert_eq!(opened.unwrap(), Opened::Open);
        mark
    }

    /// A step with an effect.
    async fn save(&self, mark: &Mark, bytes: &'static [u8]) -> Result<u64> {
        let mark = mark.clone();
        let work = move |sql: &Sql<'_>| {
            sql.execute(
                "test",
                "insert into tidegate_seen values ('sweep', hex(?1), 'effect', 0)",
                [bytes],
            )?;
            save_checkpoint(sql.connection(), &mark, bytes)
        };
        self.db.write(work).await
    }

    async fn place(&self) -> Place {
        self.store.place("nightly".into()).await.unwrap()
    }

    async fn effects(&self) -> i64 {
        let count = "select count(*) from tidegate_seen";
        self.db
            .read(move |sql| sql.one("test", count, [], |r| r.get(0)))
            .await
            .unwrap()
    }
}

fn at(version: u64, bytes: &[u8]) -> Place {
    Place {
        version,
        bytes: Some(bytes.to_vec()),
    }
}

#[tokio::test]
async fn a_checkpoint_is_saved_with_its_step_and_read_by_the_next() {
    let file = File::new();
    assert_eq!(file.place().await, Place::default());
    let first = file.begin(1).await;
    assert_eq!(file.save(&first, b"a").await.unwrap(), 1);
    let second = file.begin(1).await;
    assert_eq!(file.save(&second, b"b").await.unwrap(), 2);
    assert_eq!(file.place().await, at(2, b"b"));
}

#[tokio::test]
async fn seed_a_sweeps_cursor_went_back_after_a_hand_over() {
    let file = File::new();
    let old = file.begin(1).await;
    let new = file.begin(2).await;
    file.save(&new, b"ahead").await.unwrap();
    let refused = file.save(&old, b"behind").await.unwrap_err();
    assert_eq!(refused.code(), Code::LeaseLost);
    assert_eq!(file.place().await, at(1, b"ahead"));
    assert_eq!(file.effects().await, 1);
}

#[tokio::test]
async fn a_term_that_never_opened_the_fence_saves_nothing() {
    let file = File::new();
    let mut mark = file.begin(5).await;
    mark.token = Token(6);
    assert_eq!(file.save(&mark, b"x").await.unwrap_err().code(), Code::LeaseLost);
    assert_eq!(file.place().await, Place::default());
}

#[tokio::test]
async fn a_step_that_was_cut_and_commits_late_is_refused() {
    let file = File::new();
    let cut = file.begin(1).await;
    let next = file.begin(1).await;
    file.save(&next, b"ahead").await.unwrap();
    let refused = file.save(&cut, b"behind").await.unwrap_err();
    assert_eq!(refused.context(), "sweep/nightly: a later step has saved already");
    assert_eq!((file.place().await, file.effects().await), (at(1, b"ahead"), 1));
}

#[tokio::test]
async fn a_save_outside_a_transaction_is_refused() {
    let file = File::new();
    let mark = file.begin(1).await;
    let saved = file.db.call(move |writer| save_checkpoint(writer, &mark, b"x"));
    assert_eq!(saved.await.unwrap_err().code(), Code::Internal);
    assert_eq!(file.place().await, Place::default());
}

#[tokio::test]
async fn a_rolled_back_step_leaves_the_checkpoint_where_it_was() {
    let file = File::new();
    let mark = file.begin(1).await;
    let failing = file.db.call(move |writer| {
        writer.transaction(|sql| {
            save_checkpoint(sql.connection(), &mark, b"x")?;
            assert_eq!(checkpoint(sql.connection(), "nightly")?, at(1, b"x"));
            Err::<(), _>(Error::new(Code::HandlerFailed, "test"))
        })
    });
    assert!(failing.await.is_err());
    assert_eq!(file.place().await, Place::default());
}
