//! How SQLite runs the statements that a relay repeats: none may read more of a table than it answers.

use rusqlite::{Connection, params_from_iter};

use super::{hold, turn};

/// The steps of SQLite's plan, one a line. With rows and statistics, as a database in use has them.
fn plan(connection: &Connection, statement: &str) -> Vec<String> {
    let mut explain = connection
        .prepare(&format!("explain query plan {statement}"))
        .unwrap();
    let nulls = vec![None::<i64>; explain.parameter_count()];
    let rows = explain
        .query_map(params_from_iter(nulls), |row| row.get(3))
        .unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// Reads a whole table, or every row of an outbox.
fn is_scan(step: &str) -> bool {
    let table = step
        .strip_prefix("SCAN ")
        .is_some_and(|of| !of.starts_with(['v', 'j', 'C', '1', '2', '6']));
    table || step.ends_with("(outbox=?)") || step.contains("AUTOMATIC")
}

fn database(analyzed: bool) -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(include_str!("../schema/outbox.sql"))
        .unwrap();
    if analyzed {
        let fill =
            "insert into tidegate_outbox (outbox, lane, event_id, topic, content_type, payload, occurred_at)
            with recursive n (n) as (select 1 union all select n + 1 from n where n < 5000)
            select 1, n % 64, zeroblob(16), 't', 't', x'', 1 from n; analyze";
        connection.execute_batch(fill).unwrap();
    }
    connection
}

#[test]
fn no_repeated_statement_reads_a_whole_outbox() {
    let fixed = [
        include_str!("settle.sql"),
        include_str!("settled_ids.sql"),
        include_str!("drop_rows.sql"),
        include_str!("load.sql"),
        include_str!("set_aside.sql"),
        include_str!("lane.sql"),
        include_str!("park_row.sql"),
        include_str!("park_planned.sql"),
        include_str!("park_unplanned.sql"),
        include_str!("release_move.sql"),
        include_str!("release_since.sql"),
        include_str!("refill.sql"),
    ];
    let shaped = [
        &turn::FENCE,
        &turn::POLL,
        &turn::ARCHIVE,
        &turn::UPDATE,
        &hold::UPDATE,
    ];
    let shaped = shaped
        .iter()
        .flat_map(|values| [0, 1, 6].map(|shape| values.text(shape)));
    let all: Vec<_> = fixed.into_iter().chain(shaped).collect();
    for analyzed in [false, true] {
        let connection = database(analyzed);
        for statement in &all {
            let plan = plan(&connection, statement);
            assert!(!plan.iter().any(|step| is_scan(step)), "{statement}\n{plan:#?}");
        }
    }
}
