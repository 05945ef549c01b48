//! Notes of the machines, as coverage points.

use tidegate_core::inbox::consumer;
use tidegate_core::outbox::relay;

use super::World;

impl World {
    pub(super) fn relay_note(&mut self, note: &relay::Note) {
        use relay::Note as N;
        let point = match note {
            N::Gained(lane, _, unfinished) => {
                self.stores.truth.handed_over(lane.slot);
                self.stores
                    .coverage
                    .hit_if(*unfinished > 0, "relay met an unfinished plan");
                "relay gained a lane"
            }
            N::Lost(_) => "relay lost a lane",
            N::Fenced(_) => "relay was fenced",
            N::Published(_) => "relay published",
            N::AlreadyThere(_) => "relay met entries already there",
            N::StreamLost { .. } => "relay saw a stream loss",
            N::Refilled(..) => "relay refilled",
            N::DeclaredLost(_) => "relay declared a loss",
            N::Parked(..) => "relay parked a key",
            N::Outage(..) => "relay outage",
            N::Forked(..) => return,
        };
        self.stores.coverage.hit(point);
    }

    pub(super) fn consumer_note(&mut self, note: &consumer::Note) {
        use consumer::Note as N;
        let point = match note {
            N::Gained(_, _, position) => {
                self.stores
                    .coverage
                    .hit_if(!position.clean, "consumer gained an unclean lane");
                "consumer gained a lane"
            }
            N::Lost(_) => "consumer lost a lane",
            N::Fenced(_) => "consumer was fenced",
            N::Did(counts) => {
                let met = [
                    (counts.applied, "event applied"),
                    (counts.duplicates, "duplicate dropped"),
                    (counts.voids, "void passed"),
                    (counts.parked, "key parked"),
                    (counts.queued, "event queued behind its key"),
                    (counts.unparked, "key un-parked"),
                    (counts.skipped, "event skipped"),
                ];
                for (count, point) in met {
                    self.stores.coverage.hit_if(count > 0, point);
                }
                return;
            }
            N::Gap { .. } => "consumer met a gap",
            N::StreamRestarted => "consumer saw the stream restart",
            N::Breaker(..) => "consumer breaker",
            N::Outage(..) => "consumer outage",
            N::Forked(..) | N::Halted(..) => return,
        };
        self.stores.coverage.hit(point);
    }
}
