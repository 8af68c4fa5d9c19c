//! Owned forms of the variable records.

use homefree_wire::records as wire;

/// Text from the recorded process: control characters shown, never sent to the terminal.
pub(crate) fn text(bytes: &[u8]) -> String {
    let lossy = String::from_utf8_lossy(bytes);
    if !lossy.chars().any(char::is_control) {
        return lossy.into_owned();
    }
    let shown = lossy.chars().flat_map(|c| {
        let escaped = c.is_control().then(|| c.escape_default());
        let plain = (!c.is_control()).then_some(c);
        escaped.into_iter().flatten().chain(plain)
    });
    shown.collect()
}

/// A mapped module, see [`wire::Module`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub id: u32,
    pub bias: u64,
    pub start: u64,
    pub end: u64,
    pub first_node: u64,
    pub last_node: u64,
    pub build_id: Vec<u8>,
    pub path: String,
}

impl Module {
    pub fn new(m: &wire::Module<'_>) -> Self {
        Module {
            id: m.id,
            bias: m.bias,
            start: m.start,
            end: m.end,
            first_node: m.first_node,
            last_node: m.last_node,
            build_id: m.build_id.to_vec(),
            path: text(m.path),
        }
    }
}

/// A thread role, see [`wire::Role`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    pub kind: u32,
    pub ended: u64,
    pub start: u64,
    pub name: String,
}

impl Role {
    pub fn new(r: &wire::Role<'_>) -> Self {
        Role {
            kind: r.kind,
            ended: r.ended,
            start: r.start,
            name: text(r.name),
        }
    }
}
