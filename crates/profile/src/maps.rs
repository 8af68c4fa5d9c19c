//! Which module an address belonged to when its node was made.

use crate::records::Module;

/// The modules of one profile, for lookup.
pub(crate) struct Maps<'a> {
    /// By start; for equal starts by id.
    modules: Vec<(usize, &'a Module)>,
    /// Largest end of `modules[..=i]`: how far back a lookup must go.
    max_end: Vec<u64>,
}

impl<'a> Maps<'a> {
    pub fn new(modules: &'a [Module]) -> Self {
        let mut modules: Vec<_> = modules.iter().enumerate().collect();
        modules.sort_by_key(|(_, m)| (m.start, m.id));
        let mut reach = 0;
        let max_end = modules.iter().map(|(_, m)| {
            reach = reach.max(m.end);
            reach
        });
        Maps {
            max_end: max_end.collect(),
            modules,
        }
    }

    /// Index of the module that holds `address` for the node with number `node`.
    ///
    /// Of several, the latest one seen before the node was made; where there is none, the first one
    /// seen after it (a node made just before its module was seen).
    pub fn find(&self, address: u64, node: u64) -> Option<usize> {
        let after = self.modules.partition_point(|(_, m)| m.start <= address);
        let mut best: Option<(usize, &Module)> = None;
        for at in (0..after).rev() {
            if self.max_end[at] <= address {
                break;
            }
            let (index, m) = self.modules[at];
            if address >= m.end || node >= m.last_node {
                continue;
            }
            let better =
                best.is_none_or(
                    |(_, b)| match (m.first_node <= node, b.first_node <= node) {
                        (true, true) => (m.first_node, m.id) > (b.first_node, b.id),
                        (false, false) => (m.first_node, m.id) < (b.first_node, b.id),
                        (seen_before, _) => seen_before,
                    },
                );
            if better {
                best = Some((index, m));
            }
        }
        best.map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homefree_wire::records::STILL_MAPPED;

    fn module(id: u32, range: (u64, u64), first_node: u64, last_node: u64) -> Module {
        Module {
            id,
            bias: range.0,
            start: range.0,
            end: range.1,
            first_node,
            last_node,
            build_id: Vec::new(),
            path: format!("m{id}"),
        }
    }

    #[test]
    fn the_same_address_belongs_to_different_modules_at_different_times() {
        let modules = [
            module(1, (0x1000, 0x2000), 10, 100),
            module(2, (0x1800, 0x3000), 150, STILL_MAPPED),
            module(3, (0x100, 0x9000), 0, STILL_MAPPED),
            module(4, (0x9000, 0x9100), 40, STILL_MAPPED),
        ];
        let maps = Maps::new(&modules);
        assert_eq!(
            maps.find(0x1900, 50),
            Some(0),
            "contended: the later one wins"
        );
        assert_eq!(maps.find(0x1900, 120), Some(2), "gone by then");
        assert_eq!(maps.find(0x1900, 160), Some(1));
        assert_eq!(
            maps.find(0x9000, 39),
            Some(3),
            "made just before it was seen"
        );
        assert_eq!(maps.find(0x9100, 50), None);
        assert_eq!(maps.find(0x50, 50), None);
    }
}
