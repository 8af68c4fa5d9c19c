//! The names of the figures, the same in every output.

use crate::pressure::Stall;
use crate::scope::ScopeUsage;
use crate::snapshot::Snapshot;

/// Goes up only, or up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Count,
    Seconds,
    /// Of 1.
    Ratio,
}

/// A figure, perhaps for several labels.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    #[cfg_attr(not(feature = "metrics"), allow(dead_code))]
    pub(crate) unit: Unit,
    pub(crate) help: &'static str,
}

/// Whole numbers stay whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
}

/// Takes the figures: a family, then its samples.
pub(crate) trait Sink {
    fn family(&mut self, family: &'static Family);
    fn sample(
        &mut self,
        family: &'static Family,
        label: Option<(&'static str, &str)>,
        value: Value,
    );
}

macro_rules! families {
    ($($id:ident = $kind:ident, $unit:ident, $name:literal, $help:literal;)*) => {
        $(static $id: Family = Family {
            name: $name, kind: Kind::$kind, unit: Unit::$unit, help: $help,
        };)*
        /// Every family there may be.
        #[cfg(any(feature = "metrics", test))]
        pub(crate) static ALL: &[&Family] = &[$(&$id),*];
    };
}

families! {
    CURRENT = Gauge, Bytes, "homefree_ledger_current_bytes", "Bytes requested and not freed yet, exact.";
    PEAK = Gauge, Bytes, "homefree_ledger_peak_bytes", "The most that was held, bytes requested; off by at most homefree_ledger_error_bytes.";
    ERROR = Gauge, Bytes, "homefree_ledger_error_bytes", "Bytes that all threads together may count before they settle.";
    ALLOCATED = Counter, Bytes, "homefree_ledger_allocated_bytes_total", "Bytes allocated, as requested.";
    FREED = Counter, Bytes, "homefree_ledger_freed_bytes_total", "Bytes freed, as requested.";
    ALLOCATIONS = Counter, Count, "homefree_ledger_allocations_total", "Allocations.";
    FREES = Counter, Count, "homefree_ledger_frees_total", "Frees.";
    REFUSED = Counter, Count, "homefree_ledger_refused_total", "Requests that the hard limit refused.";
    SCOPE_CURRENT = Gauge, Bytes, "homefree_ledger_scope_current_bytes", "Bytes allocated less bytes freed by threads in the scope.";
    SCOPE_PEAK = Gauge, Bytes, "homefree_ledger_scope_peak_bytes", "The most that the scope's current bytes were.";
    SCOPE_ALLOCATED = Counter, Bytes, "homefree_ledger_scope_allocated_bytes_total", "Bytes allocated by threads in the scope.";
    SCOPE_FREED = Counter, Bytes, "homefree_ledger_scope_freed_bytes_total", "Bytes freed by threads in the scope.";
    RESIDENT = Gauge, Bytes, "homefree_process_resident_bytes", "Resident memory of the process.";
    RESIDENT_ANON = Gauge, Bytes, "homefree_process_resident_anon_bytes", "Resident anonymous memory of the process.";
    RESIDENT_FILE = Gauge, Bytes, "homefree_process_resident_file_bytes", "Resident pages of files that the process maps.";
    RESIDENT_SHMEM = Gauge, Bytes, "homefree_process_resident_shmem_bytes", "Resident shared memory of the process.";
    SWAP = Gauge, Bytes, "homefree_process_swap_bytes", "Memory of the process that is in swap.";
    RESERVED = Gauge, Bytes, "homefree_process_reserved_bytes", "Private address space of the process that can be written to.";
    CGROUP_CURRENT = Gauge, Bytes, "homefree_cgroup_current_bytes", "memory.current of the cgroup, page cache included.";
    CGROUP_WORKING = Gauge, Bytes, "homefree_cgroup_working_bytes", "What the cgroup holds and can not give up.";
    CGROUP_ANON = Gauge, Bytes, "homefree_cgroup_anon_bytes", "Anonymous memory of the cgroup.";
    CGROUP_FILE = Gauge, Bytes, "homefree_cgroup_file_bytes", "Page cache of the cgroup, shared memory included.";
    CGROUP_LIMIT = Gauge, Bytes, "homefree_cgroup_limit_bytes", "The smallest limit on the cgroup or one that it is in.";
    WAITING = Counter, Seconds, "homefree_pressure_memory_waiting_seconds_total", "Time in which some task waited for memory.";
    STALLED = Counter, Seconds, "homefree_pressure_memory_stalled_seconds_total", "Time in which all tasks waited for memory.";
    WAITING_SHARE = Gauge, Ratio, "homefree_pressure_memory_waiting_ratio", "Share of the last 10 seconds in which some task waited for memory.";
    STALLED_SHARE = Gauge, Ratio, "homefree_pressure_memory_stalled_ratio", "Share of the last 10 seconds in which all tasks waited for memory.";
}

impl Snapshot {
    /// Tells a sink of everything that is known.
    pub(crate) fn tell(&self, sink: &mut dyn Sink) {
        self.tell_ledger(sink);
        self.tell_scopes(sink);
        self.tell_system(sink);
    }

    fn tell_ledger(&self, sink: &mut dyn Sink) {
        let mut figures = std::vec![
            (&CURRENT, self.usage.current),
            (&PEAK, self.usage.peak),
            (&ERROR, self.error),
            (&ALLOCATED, self.totals.allocated),
            (&FREED, self.totals.freed),
        ];
        // Where events are not counted there is no figure; 0 would be a false one.
        if self.totals.allocations != 0 {
            figures.push((&ALLOCATIONS, self.totals.allocations));
            figures.push((&FREES, self.totals.frees));
        }
        figures.push((&REFUSED, self.refused));
        tell_all(sink, &figures);
    }

    fn tell_scopes(&self, sink: &mut dyn Sink) {
        type Figure = fn(&ScopeUsage) -> u64;
        let figures: [(&'static Family, Figure); 4] = [
            (&SCOPE_CURRENT, |scope| scope.current),
            (&SCOPE_PEAK, |scope| scope.peak),
            (&SCOPE_ALLOCATED, |scope| scope.allocated),
            (&SCOPE_FREED, |scope| scope.freed),
        ];
        for (family, figure) in figures {
            if !self.scopes.is_empty() {
                sink.family(family);
            }
            for (name, scope) in &self.scopes {
                sink.sample(family, Some(("scope", name)), Value::Whole(figure(scope)));
            }
        }
    }

    fn tell_system(&self, sink: &mut dyn Sink) {
        if let Some(process) = &self.process {
            tell_all(
                sink,
                &[
                    (&RESIDENT, process.resident),
                    (&RESIDENT_ANON, process.anon),
                    (&RESIDENT_FILE, process.file),
                    (&RESIDENT_SHMEM, process.shmem),
                    (&SWAP, process.swap),
                    (&RESERVED, process.reserved),
                ],
            );
        }
        if let Some(cgroup) = &self.cgroup {
            tell_all(
                sink,
                &[
                    (&CGROUP_CURRENT, cgroup.own.current),
                    (&CGROUP_WORKING, cgroup.own.working()),
                    (&CGROUP_ANON, cgroup.own.anon),
                    (&CGROUP_FILE, cgroup.own.file),
                ],
            );
            if let Some(limit) = cgroup.limit {
                tell_all(sink, &[(&CGROUP_LIMIT, limit)]);
            }
        }
        if let Some((psi, is_own)) = &self.psi {
            let of = Some(("of", if *is_own { "cgroup" } else { "system" }));
            let seconds = |stall: Stall| Value::Real(stall.total as f64 / 1e6);
            let share = |stall: Stall| Value::Real(stall.avg10 / 100.0);
            for (family, value) in [
                (&WAITING, seconds(psi.some)),
                (&STALLED, seconds(psi.full)),
                (&WAITING_SHARE, share(psi.some)),
                (&STALLED_SHARE, share(psi.full)),
            ] {
                sink.family(family);
                sink.sample(family, of, value);
            }
        }
    }
}

fn tell_all(sink: &mut dyn Sink, figures: &[(&'static Family, u64)]) {
    for (family, value) in figures {
        sink.family(family);
        sink.sample(family, None, Value::Whole(*value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_they_count() {
        let mut names = std::collections::HashSet::new();
        for family in ALL {
            assert!(names.insert(family.name), "{} twice", family.name);
            let name = family.name;
            assert_eq!(
                family.kind == Kind::Counter,
                name.ends_with("_total"),
                "{name}"
            );
            let stem = name.trim_end_matches("_total");
            match family.unit {
                Unit::Bytes => assert!(stem.ends_with("_bytes"), "{name}"),
                Unit::Seconds => assert!(stem.ends_with("_seconds"), "{name}"),
                Unit::Ratio => assert!(stem.ends_with("_ratio"), "{name}"),
                Unit::Count => {}
            }
            assert!(!family.help.contains(['\\', '\n']), "{name}");
        }
    }
}
