//! The pipeline over many seeds.

use tidegate_sim::pipeline::{Options, run, shrink};

#[test]
fn quick() {
    let n: u64 = std::env::var("TIDEGATE_SIM_SEEDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(200);
    if let Ok(seed) = std::env::var("TIDEGATE_SIM_SEED") {
        let only = std::env::var("TIDEGATE_SIM_FAULTS")
            .ok()
            .map(|f| f.parse().unwrap());
        let o = run(
            seed.parse().unwrap(),
            &Options {
                trace: true,
                only,
                ..Options::default()
            },
        );
        if let Some(v) = &o.violation {
            println!(
                "shrunk {}",
                shrink(
                    seed.parse().unwrap(),
                    &Options {
                        only,
                        ..Options::default()
                    },
                    v
                )
            );
        }
        for line in o.trace {
            println!("{line}");
        }
        return;
    }
    let mut fails = std::collections::BTreeMap::<String, Vec<u64>>::new();
    let t = std::time::Instant::now();
    for seed in 0..n {
        let o = run(seed, &Options::default());
        if let Some(v) = o.violation {
            let e = fails.entry(v.checker.to_string()).or_default();
            if e.len() < 3 {
                println!("{seed} [{}] {v}", o.faults);
            }
            e.push(seed);
        }
    }
    println!("{:?}", t.elapsed());
    for (k, v) in fails {
        println!("{k} {} {:?}", v.len(), &v[..v.len().min(10)]);
    }
}
