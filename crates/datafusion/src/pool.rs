//! [`LedgerPool`].

use crate::book::Book;
use crate::consumers::{ConsumerUse, Consumers, EndedConsumers};
use crate::difference::{Difference, size};
use crate::limit::{RealLimit, Refusal, Setting};
use crate::source::{Real, Source, is_counting};
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use homefree_ledger::Scope;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A memory pool around another that compares what is declared with what is really held.
///
/// Grants are the wrapped pool's, [`MemoryPool::reserved`] and [`MemoryPool::memory_limit`] too: with no
/// [`RealLimit`] set, queries are planned and run exactly as with the wrapped pool alone. (DataFusion asks a pool's
/// `memory_limit` to choose among its streams of aggregation, so a wrapper that answers with a limit of its own
/// changes plans; Comet met that in apache/datafusion-comet#5983.)
///
/// Cost beside the wrapped pool's, at each change of a reservation: a lock, a look-up, and a few loads for the real
/// number; the exact reading is made only near a limit.
#[derive(Debug)]
pub struct LedgerPool<P: MemoryPool + ?Sized> {
    book: Book,
    consumers: Consumers,
    limit: Setting,
    inner: Arc<P>,
}

impl<P: MemoryPool> LedgerPool<P> {
    /// Around a pool of its own. The real number is the ledger's, so of the whole executable or library.
    pub fn new(inner: P) -> Self {
        Self::over(Arc::new(inner))
    }
}

impl<P: MemoryPool + ?Sized> LedgerPool<P> {
    /// Around a pool that is shared already, `Arc<dyn MemoryPool>` for one. What was reserved in it before, or is
    /// reserved past this wrapper, is in its `reserved` and not in our `declared`.
    pub fn over(inner: Arc<P>) -> Self {
        Self::with_source(inner, Source::process())
    }

    /// Around a pool whose work is done by threads that are in `scope`: the real number is the scope's.
    ///
    /// For one query among several, run it on a runtime of its own whose threads enter the scope when they start.
    /// [`Scope::wrap`] around the query's future is not enough where operators spawn tasks, as repartitioning does:
    /// those run outside. What is allocated in the scope and freed outside stays in its number; see
    /// [`homefree_ledger::ScopeUsage`]. Other threads' last 64 KiB may be missing.
    pub fn of_scope(inner: Arc<P>, scope: Scope) -> Self {
        Self::with_source(inner, Source::Scope(scope))
    }

    fn with_source(inner: Arc<P>, source: Source) -> Self {
        Self {
            book: Book::new(source),
            consumers: Consumers::default(),
            limit: Setting::none(),
            inner,
        }
    }

    /// As [`Self::set_real_limit`], for building.
    ///
    /// # Errors
    /// As there.
    pub fn with_real_limit(self, limit: RealLimit) -> Result<Self> {
        self.set_real_limit(Some(limit))?;
        Ok(self)
    }

    /// Refuses requests on the real number from now on; `None` no longer.
    ///
    /// # Errors
    /// `Configuration` where the ledger counts nothing, because no [`homefree_ledger::Accounted`] is the global
    /// allocator of this executable or library: the limit would never be reached.
    pub fn set_real_limit(&self, limit: Option<RealLimit>) -> Result<()> {
        if limit.is_some() && !is_counting() {
            return Err(DataFusionError::Configuration(
                "a real limit needs the ledger, and it counts nothing here: install homefree_ledger::Accounted as \
                 #[global_allocator] in the executable or cdylib that contains DataFusion"
                    .to_owned(),
            ));
        }
        self.limit.set(limit);
        Ok(())
    }

    /// The limit on the real number, if one is set.
    pub fn real_limit(&self) -> Option<RealLimit> {
        self.limit.get()
    }

    /// Makes what is held now, less what is declared now, the baseline: from here on the real number is of what
    /// comes after, and the peaks begin anew. Answers the baseline, bytes.
    ///
    /// Take it while the pool is idle, before a query. What the program frees of the baseline later makes the real
    /// number too low, and what it allocates beside the queries too high.
    pub fn take_baseline(&self) -> u64 {
        self.book.take_baseline()
    }

    /// Declared beside real. Reads every thread's counters (some 20 ns a thread) and `/proc/self/status`.
    pub fn difference(&self) -> Difference {
        self.book.difference()
    }

    /// Everyone who is registered, who declared most first.
    pub fn consumers(&self) -> Vec<ConsumerUse> {
        self.consumers.live()
    }

    /// Those who have ended, by name, the largest peak first; of very many names those with the largest peaks.
    pub fn ended_consumers(&self) -> Vec<EndedConsumers> {
        self.consumers.ended()
    }

    /// The wrapped pool.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// Whether the real number allows a request. The quick reading decides where it is sure to be right.
    fn check(&self, quick: Real, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let Some(limit) = self.limit.get() else {
            return Ok(());
        };
        let consumer = reservation.consumer();
        let most = limit.of(consumer.can_spill());
        let fits = |held: u64| held.saturating_add(additional as u64) <= most;
        if fits(quick.bytes.saturating_add(quick.error)) {
            return Ok(());
        }
        let real = self.book.sample_exactly().bytes;
        if fits(real) {
            return Ok(());
        }
        self.book.refused.fetch_add(1, Relaxed);
        self.consumers.refused(consumer);
        let refusal = Refusal {
            consumer: consumer.name(),
            can_spill: consumer.can_spill(),
            asked: additional,
            reserved: reservation.size(),
            limit,
            real,
            declared: self.book.declared(),
            baseline: self.book.baseline(),
            pool: self.to_string(),
        };
        Err(DataFusionError::ResourcesExhausted(refusal.message()))
    }

    fn granted(&self, reservation: &MemoryReservation, bytes: usize) {
        self.book.grow(bytes);
        self.consumers.grow(reservation.consumer(), bytes);
    }
}

impl<P: MemoryPool + ?Sized> MemoryPool for LedgerPool<P> {
    fn name(&self) -> &str {
        "ledger"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
        self.consumers.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
        self.consumers.unregister(consumer);
    }

    /// Never refused, as the trait demands; it counts towards what the next `try_grow` is judged on.
    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.book.sample();
        self.inner.grow(reservation, additional);
        self.granted(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.book.sample();
        self.inner.shrink(reservation, shrink);
        self.book.shrink(shrink);
        self.consumers.shrink(reservation.consumer(), shrink);
    }

    /// # Errors
    /// `ResourcesExhausted` on the real number, before the wrapped pool is asked; or the wrapped pool's own error.
    /// After either nothing has changed.
    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let quick = self.book.sample();
        self.check(quick, reservation, additional)?;
        if let Err(error) = self.inner.try_grow(reservation, additional) {
            self.book.declined.fetch_add(1, Relaxed);
            self.consumers.refused(reservation.consumer());
            return Err(error);
        }
        self.granted(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}

impl<P: MemoryPool + ?Sized> Display for LedgerPool<P> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}", self.name(), self.inner)?;
        if let Some(limit) = self.limit.get() {
            write!(f, ", real limit: {}", size(limit.bytes))?;
        }
        f.write_str(")")
    }
}
