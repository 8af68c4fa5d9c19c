//! Rejected: settle after so many bytes of volume, whatever the net. Two adds an event, and the shared balance is
//! written to though nothing has changed.

use ledger_arms::{Count, Counted, add, distance, get, set};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

const NET: usize = 0;
/// What may still pass, negated; 0 in a thread never seen.
const LEFT: usize = 8;
const VOLUME: i64 = 1 << 20;

static BALANCE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);
static CHOSEN: AtomicI64 = AtomicI64::new(VOLUME);

#[global_allocator]
static A: Counted<Churn> = Counted::new();

struct Churn;

impl Count for Churn {
    #[inline(always)]
    fn allocated(bytes: usize) {
        let place = distance();
        add::<NET>(place, bytes as i64);
        if !add::<LEFT>(place, bytes as i64) {
            settle();
        }
    }

    #[inline(always)]
    fn freed(bytes: usize) {
        let place = distance();
        add::<NET>(place, -(bytes as i64));
        if !add::<LEFT>(place, bytes as i64) {
            settle();
        }
    }
}

#[cold]
#[inline(never)]
fn settle() {
    let place = distance();
    let net = get::<NET>(place);
    set::<NET>(place, 0);
    set::<LEFT>(place, -CHOSEN.load(Relaxed));
    let balance = BALANCE.fetch_add(net, Relaxed) + net;
    if balance > PEAK.load(Relaxed) {
        PEAK.fetch_max(balance, Relaxed);
    }
}

/// The arm.
pub struct This;

impl ledger_load::Arm for This {
    const NAME: &'static str = "churn";

    fn held() -> Option<i64> {
        Some(BALANCE.load(Relaxed) + get::<NET>(distance()))
    }

    fn settle_always() -> bool {
        CHOSEN.store(1, Relaxed);
        settle();
        true
    }

    fn readings() -> &'static [ledger_load::Reading] {
        &[("balance", || BALANCE.load(Relaxed))]
    }
}
