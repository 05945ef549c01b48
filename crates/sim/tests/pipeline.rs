//! The pipeline over many seeds.

use tidegate_sim::pipeline::{Options, run};

#[test]
fn quick() {
    let n: u64 = std::env::var("TIDEGATE_SIM_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(200);
    let mut fails = std::collections::BTreeMap::<String, Vec<u64>>::new();
    let t = std::time::Instant::now();
    for seed in 0..n {
        let o = run(seed, &Options::default());
        if let Some(v) = o.violation {
            let e = fails.entry(v.checker.to_string()).or_default();
            if e.len() < 3 { println!("{seed} [{}] {v}", o.faults); }
            e.push(seed);
        }
    }
    println!("{:?}", t.elapsed());
    for (k, v) in fails { println!("{k} {} {:?}", v.len(), &v[..v.len().min(10)]); }
}
