//! Who declared what.

use datafusion_execution::memory_pool::MemoryConsumer;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Names of ended consumers that are kept; those of the smallest peaks go first.
const NAMES: usize = 128;

/// One registered consumer: an operator's partition, as a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerUse {
    /// DataFusion's id of it, unique in the process.
    pub id: usize,
    /// As the operator named it.
    pub name: String,
    /// Whether it said that it can spill.
    pub can_spill: bool,
    /// Bytes reserved now, over all its reservations.
    pub declared: u64,
    /// The most that was, bytes.
    pub peak: u64,
    /// Its requests that were refused, on the real number or by the wrapped pool.
    pub refused: u64,
}

/// Consumers of one name that have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndedConsumers {
    /// The name they had.
    pub name: String,
    /// How many.
    pub count: u64,
    /// The largest peak among them, bytes.
    pub peak: u64,
    /// Their requests that were refused.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Table {
    live: HashMap<usize, ConsumerUse>,
    ended: HashMap<String, EndedConsumers>,
}

#[derive(Debug, Default)]
pub(crate) struct Consumers(Mutex<Table>);

impl Consumers {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn register(&self, consumer: &MemoryConsumer) {
        self.table().live.insert(
            consumer.id(),
            ConsumerUse {
                id: consumer.id(),
                name: consumer.name().to_owned(),
                can_spill: consumer.can_spill(),
                declared: 0,
                peak: 0,
                refused: 0,
            },
        );
    }

    pub(crate) fn unregister(&self, consumer: &MemoryConsumer) {
        let mut table = self.table();
        let Some(gone) = table.live.remove(&consumer.id()) else {
            return;
        };
        if !table.ended.contains_key(&gone.name) && table.ended.len() >= NAMES {
            let smallest = table.ended.values().min_by_key(|ended| ended.peak);
            if let Some(name) = smallest.map(|ended| ended.name.clone()) {
                table.ended.remove(&name);
            }
        }
        let ended = table.ended.entry(gone.name.clone()).or_default();
        ended.name = gone.name;
        ended.count += 1;
        ended.peak = ended.peak.max(gone.peak);
        ended.refused += gone.refused;
    }

    fn with(&self, consumer: &MemoryConsumer, change: impl FnOnce(&mut ConsumerUse)) {
        if let Some(known) = self.table().live.get_mut(&consumer.id()) {
            change(known);
        }
    }

    pub(crate) fn grow(&self, consumer: &MemoryConsumer, bytes: usize) {
        self.with(consumer, |known| {
            known.declared += bytes as u64;
            known.peak = known.peak.max(known.declared);
        });
    }

    pub(crate) fn shrink(&self, consumer: &MemoryConsumer, bytes: usize) {
        self.with(consumer, |known| {
            known.declared = known.declared.saturating_sub(bytes as u64);
        });
    }

    pub(crate) fn refused(&self, consumer: &MemoryConsumer) {
        self.with(consumer, |known| known.refused += 1);
    }

    /// The largest first.
    pub(crate) fn live(&self) -> Vec<ConsumerUse> {
        let mut all: Vec<_> = self.table().live.values().cloned().collect();
        all.sort_by(|a, b| b.declared.cmp(&a.declared).then(a.id.cmp(&b.id)));
        all
    }

    /// The largest peak first.
    pub(crate) fn ended(&self) -> Vec<EndedConsumers> {
        let mut all: Vec<_> = self.table().ended.values().cloned().collect();
        all.sort_by(|a, b| b.peak.cmp(&a.peak).then_with(|| a.name.cmp(&b.name)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(consumers: &Consumers, name: &str, bytes: usize) {
        let consumer = MemoryConsumer::new(name);
        consumers.register(&consumer);
        consumers.grow(&consumer, bytes);
        consumers.shrink(&consumer, bytes);
        consumers.unregister(&consumer);
    }

    #[test]
    fn ended_consumers_are_kept_by_name() {
        let consumers = Consumers::default();
        run(&consumers, "sort", 10);
        run(&consumers, "sort", 30);
        run(&consumers, "sort", 20);
        let ended = consumers.ended();
        assert_eq!(ended.len(), 1);
        assert_eq!((ended[0].count, ended[0].peak), (3, 30));
        assert!(consumers.live().is_empty());
    }

    #[test]
    fn a_server_of_many_names_keeps_the_largest_of_them() {
        let consumers = Consumers::default();
        for n in 1..=1_000 {
            run(&consumers, &format!("query {n}"), n);
        }
        let ended = consumers.ended();
        assert_eq!(ended.len(), NAMES);
        assert_eq!(ended[0].name, "query 1000");
    }
}
