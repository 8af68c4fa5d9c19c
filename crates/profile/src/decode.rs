//! Pages to tables.

use crate::records::{Module, Role, text};
use homefree_wire::records::{Record, records, tag};
use homefree_wire::{
    BANKS, BankValue, FLOWS, FLOWS_AT, FlowValue, NODES, NodeValue, PAGE, PAGE_MAGIC,
    PageHeadValue, SITES, SiteValue, kind,
};
use std::collections::{HashMap, HashSet};

/// Everything in a profile but its header. Memory is proportional to the file, whatever ids it claims.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// Pages of nodes by their number.
    nodes: HashMap<u32, Box<[NodeValue]>>,
    /// By bank id.
    pub banks: HashMap<u32, BankValue>,
    /// (bank, counts)
    pub sites: Vec<(u32, SiteValue)>,
    /// (bank, counts)
    pub flows: Vec<(u32, FlowValue)>,
    pub modules: Vec<Module>,
    /// By role id.
    pub roles: HashMap<u32, Role>,
    pub exe: String,
    pub cmdline: String,
    pub host: String,
    pub allocator: String,
    pub labels: Vec<String>,
    seen: HashSet<(u16, u32, u32)>,
}

impl Tables {
    /// The node with this id; `None` where it was not written or its page is lost.
    pub fn node(&self, id: u32) -> Option<NodeValue> {
        let page = self.nodes.get(&(id / NODES as u32))?;
        page.get(id as usize % NODES).copied().filter(|n| n.pc != 0)
    }

    /// Takes in a page; false when it is damaged (nothing of it, or its readable part, is kept).
    pub fn add(&mut self, page: &[u8; PAGE]) -> bool {
        let Some(head) = PageHeadValue::decode(page) else {
            return false;
        };
        if head.magic != PAGE_MAGIC {
            // Handed out, but not written to when the program was killed.
            return page.iter().all(|&b| b == 0);
        }
        let owner = match head.kind {
            kind::SITES | kind::FLOWS => head.owner,
            _ => 0,
        };
        if head.kind != kind::RECORDS && !self.seen.insert((head.kind, owner, head.seq)) {
            return false;
        }
        let slots = |size: usize| page.chunks_exact(size).enumerate().skip(1);
        match head.kind {
            kind::NODES => {
                let decoded = page.chunks_exact(PAGE / NODES).map(NodeValue::decode);
                let mut nodes: Box<[NodeValue]> = decoded.map(Option::unwrap_or_default).collect();
                // Slot 0 is the page's head.
                nodes[0] = NodeValue::default();
                self.nodes.insert(head.seq, nodes);
            }
            kind::BANKS => {
                let Some(base) = head.seq.checked_mul(BANKS as u32) else {
                    return false;
                };
                for (slot, bytes) in slots(PAGE / BANKS) {
                    if let Some(bank) = BankValue::decode(bytes).filter(|b| b.state != 0) {
                        self.banks.insert(base.saturating_add(slot as u32), bank);
                    }
                }
            }
            kind::SITES => {
                for (_, bytes) in slots(PAGE / SITES) {
                    if let Some(site) = SiteValue::decode(bytes).filter(|s| s.node != 0) {
                        self.sites.push((head.owner, site));
                    }
                }
            }
            kind::FLOWS => {
                for bytes in page[FLOWS_AT..].chunks_exact((PAGE - FLOWS_AT) / FLOWS) {
                    if let Some(flow) = FlowValue::decode(bytes).filter(|f| f.head.alloc_node != 0)
                    {
                        self.flows.push((head.owner, flow));
                    }
                }
            }
            kind::RECORDS => return self.add_records(page),
            _ => return false,
        }
        true
    }

    fn add_records(&mut self, page: &[u8]) -> bool {
        for record in records(page) {
            match record {
                Record::Module(m) => self.modules.push(Module::new(&m)),
                Record::Role(r) => {
                    self.roles.insert(r.id, Role::new(&r));
                }
                Record::Text { tag, text: bytes } => match tag {
                    tag::EXE => self.exe = text(bytes),
                    tag::CMDLINE => self.cmdline = command_line(bytes),
                    tag::HOST => self.host = text(bytes),
                    tag::ALLOCATOR => self.allocator = text(bytes),
                    tag::LABEL => self.labels.push(text(bytes)),
                    _ => {}
                },
                Record::Unknown { .. } => {}
                Record::Damaged => return false,
            }
        }
        true
    }
}

/// Arguments separated by NUL to one line, quoted where a shell would need it.
fn command_line(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    let quoted = bytes.split(|&b| b == 0).map(|arg| {
        let arg = text(arg);
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
        if !arg.is_empty() && arg.chars().all(plain) {
            arg
        } else {
            format!("'{}'", arg.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        let line = b"sh\0-c\0echo it's\0\0";
        assert_eq!(command_line(line), r"sh -c 'echo it'\''s' ''");
        assert_eq!(command_line(b"redis-server\0"), "redis-server");
    }
}
