//! What a program may ask of the library, if it is there: declare these weak.

use homefree_ledger::{ledger, raw};

/// Usable bytes that the process holds now, exact if no other thread allocates or frees meanwhile.
///
/// In C: `__attribute__((weak)) unsigned long long homefree_ledger_current(void);`. Not for handlers of signals.
#[unsafe(no_mangle)]
pub extern "C" fn homefree_ledger_current() -> u64 {
    if raw::holds_a_lock() {
        ledger().usage().current
    } else {
        ledger().usage_exact().current
    }
}
