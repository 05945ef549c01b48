//! Streams for cases: entries with proper numbers, chains and ids.

use bytes::Bytes;
use tidegate_core::stream::{Chain, Entry, EntryId};
use tidegate_core::{Event, Timestamp, Uuid};

use super::{LANES, lane};

/// Makes entries as a stream would hold them.
#[derive(Debug, Clone)]
pub struct Feed {
    ends: Vec<(u64, Chain)>,
    next: u64,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            ends: vec![(0, Chain::START); usize::from(LANES)],
            next: 0,
        }
    }
}

impl Feed {
    /// The next event of a lane.
    pub fn event(&mut self, slot: u16, key: &str) -> Entry {
        let event = self.make(slot, Some(key));
        self.entry(slot, Some(event))
    }

    /// The next event of a lane, with this JSON payload.
    pub fn json(&mut self, slot: u16, key: &str, payload: &str) -> Entry {
        let mut event = self.make(slot, Some(key));
        event.content_type = "application/json".into();
        event.payload = Bytes::copy_from_slice(payload.as_bytes());
        self.entry(slot, Some(event))
    }

    /// The next event of a lane, without a key.
    pub fn keyless(&mut self, slot: u16) -> Entry {
        let event = self.make(slot, None);
        self.entry(slot, Some(event))
    }

    /// A void marker.
    pub fn void(&mut self, slot: u16) -> Entry {
        self.entry(slot, None)
    }

    /// Events of one lane, one for each key.
    pub fn events(&mut self, slot: u16, keys: &[&str]) -> Vec<Entry> {
        keys.iter().map(|key| self.event(slot, key)).collect()
    }

    /// The next id that will be used.
    pub fn next_id(&self) -> EntryId {
        EntryId(0, self.next + 1)
    }

    fn make(&self, slot: u16, key: Option<&str>) -> Event {
        let n = self.ends[usize::from(slot)].0 + 1;
        Event {
            id: Uuid::from_u128(u128::from(slot) << 64 | u128::from(n)),
            topic: "cases".into(),
            key: key.map(str::to_owned),
            version: n.is_multiple_of(2).then_some(n.cast_signed()),
            content_type: "application/octet-stream".into(),
            headers: vec![
                ("traceparent".into(), format!("00-{n}")),
                ("quote".into(), "\"'é".into()),
            ],
            payload: payload(slot, n),
            occurred_at: Timestamp::from_micros(1_600_000_000_000_000 + n.cast_signed()),
        }
    }

    fn entry(&mut self, slot: u16, event: Option<Event>) -> Entry {
        let (n, chain) = &mut self.ends[usize::from(slot)];
        *n += 1;
        *chain = chain.next(*n, event.as_ref().map(|event| event.id));
        self.next += 1;
        Entry {
            id: EntryId(0, self.next),
            lane: lane(slot),
            n: *n,
            chain: *chain,
            event,
        }
    }
}

/// Bytes that no text codec survives; some empty.
pub fn payload(slot: u16, n: u64) -> Bytes {
    if n.is_multiple_of(5) {
        return Bytes::new();
    }
    let mut bytes = vec![0, 255, 0xC3, 0x28];
    bytes.extend_from_slice(format!("{slot}:{n}").as_bytes());
    Bytes::from(bytes)
}
