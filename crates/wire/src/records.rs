//! Variable records: modules, roles, and facts about the run.
//!
//! A [`crate::kind::RECORDS`] page holds its head and then records, each 8-byte aligned:
//!
//! ```text
//! u16 length in bytes, this head included, a multiple of 8
//! u16 tag
//! u32 id          role id or module id, else 0
//! payload         fixed words, then the text to the end (its length in the payload)
//! ```
//!
//! A reader skips tags that it does not know. A record never crosses a page.

use crate::PAGE;

/// Tags of records.
pub mod tag {
    /// A mapped module: [`super::Module`].
    pub const MODULE: u16 = 1;
    /// A thread role: [`super::Role`].
    pub const ROLE: u16 = 2;
    /// Path of the executable (text).
    pub const EXE: u16 = 3;
    /// Command line, arguments separated by NUL (text; may be cut).
    pub const CMDLINE: u16 = 4;
    /// Host name (text).
    pub const HOST: u16 = 5;
    /// The allocator behind the recorder: path of the module that serves `malloc` (text).
    pub const ALLOCATOR: u16 = 6;
    /// A label `key=value` given by the user (text).
    pub const LABEL: u16 = 7;
}

/// Bytes of a record's own head.
pub const RECORD_HEAD: usize = 8;
/// First record of a page.
pub const RECORDS_AT: usize = 16;
/// Longest text; longer ones are cut at the end.
pub const MAX_TEXT: usize = PAGE - RECORDS_AT - RECORD_HEAD - 128;

/// `Module::last_node` of a module that is still mapped.
pub const STILL_MAPPED: u64 = u64::MAX;

/// A mapped module. It owns the nodes whose address lies in `start..end` and whose id is at least
/// `first_node` and below `last_node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module<'a> {
    /// Id, from 1, in the order of first sight.
    pub id: u32,
    /// Difference between addresses in memory and in the ELF file (`l_addr`).
    pub bias: u64,
    /// First mapped address.
    pub start: u64,
    /// First address past the mapping.
    pub end: u64,
    /// Nodes handed out when the module was first seen. A node made just before may belong to it
    /// already: where two modules contend, the later one wins from `first_node` on.
    pub first_node: u64,
    /// Nodes handed out when it was seen to be gone; [`STILL_MAPPED`] until then.
    pub last_node: u64,
    /// GNU build id; empty where it has none. At most 32 bytes.
    pub build_id: &'a [u8],
    /// Path as the loader names it; empty for the executable (see [`tag::EXE`]).
    pub path: &'a [u8],
}

/// How a role got its name.
pub mod role_kind {
    /// The name of the threads, digits folded.
    pub const NAME: u32 = 0;
    /// The main thread.
    pub const MAIN: u32 = 1;
    /// The start function: the text is empty, `start` the function's address (resolve it like a node made last).
    pub const START: u32 = 2;
    /// More roles than there is room for: all further ones.
    pub const OTHER: u32 = 3;
}

/// A thread role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role<'a> {
    /// Id, from 1.
    pub id: u32,
    /// One of [`role_kind`].
    pub kind: u32,
    /// Threads that had this role last (ended ones; live ones are counted by their banks).
    pub ended: u64,
    /// Start function for [`role_kind::START`], else 0.
    pub start: u64,
    /// Name, folded.
    pub name: &'a [u8],
}

/// Offset of `Module::last_node` in a record.
pub const MODULE_LAST_NODE_AT: usize = RECORD_HEAD + 32;
/// Offset of `Role::ended` in a record.
pub const ROLE_ENDED_AT: usize = RECORD_HEAD + 8;

/// Bytes that a record with this payload takes, padding included.
pub const fn record_len(payload: usize) -> usize {
    (RECORD_HEAD + payload).next_multiple_of(8)
}

fn put(out: &mut [u8], at: &mut usize, bytes: &[u8]) {
    out[*at..*at + bytes.len()].copy_from_slice(bytes);
    *at += bytes.len();
}

fn seal(out: &mut [u8], tag: u16, id: u32, end: usize) -> usize {
    let len = end.next_multiple_of(8);
    out[end..len].fill(0);
    out[0..2].copy_from_slice(&(len as u16).to_le_bytes());
    out[2..4].copy_from_slice(&tag.to_le_bytes());
    out[4..8].copy_from_slice(&id.to_le_bytes());
    len
}

fn clip(text: &[u8]) -> &[u8] {
    &text[..text.len().min(MAX_TEXT)]
}

/// A record being made; `PAGE` bytes hold any of them.
pub type Buffer = [u8; PAGE];

impl Module<'_> {
    /// Writes the record to `out`; returns its length.
    pub fn encode(&self, out: &mut Buffer) -> usize {
        let mut at = RECORD_HEAD;
        for word in [
            self.bias,
            self.start,
            self.end,
            self.first_node,
            self.last_node,
        ] {
            put(out, &mut at, &word.to_le_bytes());
        }
        let build_id = &self.build_id[..self.build_id.len().min(32)];
        let path = clip(self.path);
        put(out, &mut at, &(build_id.len() as u32).to_le_bytes());
        put(out, &mut at, &(path.len() as u32).to_le_bytes());
        put(out, &mut at, build_id);
        put(out, &mut at, path);
        seal(out, tag::MODULE, self.id, at)
    }
}

impl Role<'_> {
    /// Writes the record to `out`; returns its length.
    pub fn encode(&self, out: &mut Buffer) -> usize {
        let mut at = RECORD_HEAD;
        let name = clip(self.name);
        put(out, &mut at, &self.kind.to_le_bytes());
        put(out, &mut at, &(name.len() as u32).to_le_bytes());
        put(out, &mut at, &self.ended.to_le_bytes());
        put(out, &mut at, &self.start.to_le_bytes());
        put(out, &mut at, name);
        seal(out, tag::ROLE, self.id, at)
    }
}

/// Writes a record that is only text ([`tag::EXE`] …) to `out`; returns its length.
pub fn encode_text(tag: u16, text: &[u8], out: &mut Buffer) -> usize {
    let text = clip(text);
    let mut at = RECORD_HEAD;
    put(out, &mut at, &(text.len() as u64).to_le_bytes());
    put(out, &mut at, text);
    seal(out, tag, 0, at)
}

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// [`tag::MODULE`].
    Module(Module<'a>),
    /// [`tag::ROLE`].
    Role(Role<'a>),
    /// Any tag that is only text.
    Text {
        /// The tag.
        tag: u16,
        /// The text.
        text: &'a [u8],
    },
    /// A tag of a later minor revision.
    Unknown {
        /// The tag.
        tag: u16,
    },
    /// Bytes that are no record; the rest of the page cannot be read.
    Damaged,
}

/// Iterates over the records of a page. Stops at the first length of zero (the end) or after
/// [`Record::Damaged`].
pub fn records(page: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let mut rest = page.get(RECORDS_AT..).unwrap_or(&[]);
    core::iter::from_fn(move || {
        let len = u16_at(rest, 0)? as usize;
        if len == 0 {
            return None;
        }
        let Some(record) = rest
            .get(..len)
            .filter(|r| r.len() >= RECORD_HEAD && len.is_multiple_of(8))
        else {
            rest = &[];
            return Some(Record::Damaged);
        };
        rest = &rest[len..];
        Some(decode(record).unwrap_or_else(|| {
            rest = &[];
            Record::Damaged
        }))
    })
}

fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(b.get(at..at + 2)?.try_into().ok()?))
}
fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(b.get(at..at + 4)?.try_into().ok()?))
}
fn u64_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(b.get(at..at + 8)?.try_into().ok()?))
}

fn decode(record: &[u8]) -> Option<Record<'_>> {
    let tag = u16_at(record, 2)?;
    let id = u32_at(record, 4)?;
    let payload = &record[RECORD_HEAD..];
    Some(match tag {
        tag::MODULE => {
            let id_len = u32_at(payload, 40)? as usize;
            let path_len = u32_at(payload, 44)? as usize;
            let build_id = payload.get(48..48usize.checked_add(id_len)?)?;
            let path_at = 48 + id_len;
            Record::Module(Module {
                id,
                bias: u64_at(payload, 0)?,
                start: u64_at(payload, 8)?,
                end: u64_at(payload, 16)?,
                first_node: u64_at(payload, 24)?,
                last_node: u64_at(payload, 32)?,
                build_id,
                path: payload.get(path_at..path_at.checked_add(path_len)?)?,
            })
        }
        tag::ROLE => {
            let name_len = u32_at(payload, 4)? as usize;
            Record::Role(Role {
                id,
                kind: u32_at(payload, 0)?,
                ended: u64_at(payload, 8)?,
                start: u64_at(payload, 16)?,
                name: payload.get(24..24usize.checked_add(name_len)?)?,
            })
        }
        tag::EXE | tag::CMDLINE | tag::HOST | tag::ALLOCATOR | tag::LABEL => {
            let len = usize::try_from(u64_at(payload, 0)?).ok()?;
            Record::Text {
                tag,
                text: payload.get(8..8usize.checked_add(len)?)?,
            }
        }
        tag => Record::Unknown { tag },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back_and_damage_is_said() {
        let mut page = [0u8; PAGE];
        let mut buf = [0u8; PAGE];
        let module = Module {
            id: 3,
            bias: 0x5000,
            start: 0x5000,
            end: 0x9000,
            first_node: 7,
            last_node: STILL_MAPPED,
            build_id: b"0123456789abcdef0123",
            path: b"/usr/lib/libx.so.1",
        };
        let role = Role {
            id: 1,
            kind: role_kind::NAME,
            ended: 9,
            start: 0,
            name: b"rpc-worker-*",
        };
        let mut at = RECORDS_AT;
        let mut add = |page: &mut [u8; PAGE], buf: &[u8], n: usize| {
            page[at..at + n].copy_from_slice(&buf[..n]);
            at += n;
        };
        let n = module.encode(&mut buf);
        assert_eq!(
            buf[MODULE_LAST_NODE_AT..MODULE_LAST_NODE_AT + 8],
            STILL_MAPPED.to_le_bytes()
        );
        add(&mut page, &buf, n);
        let n = role.encode(&mut buf);
        assert_eq!(buf[ROLE_ENDED_AT..ROLE_ENDED_AT + 8], 9u64.to_le_bytes());
        add(&mut page, &buf, n);
        let n = encode_text(tag::EXE, b"/bin/true", &mut buf);
        add(&mut page, &buf, n);
        let expected = [
            Record::Module(module),
            Record::Role(role),
            Record::Text {
                tag: tag::EXE,
                text: b"/bin/true",
            },
        ];
        assert!(records(&page).eq(expected));

        page[at..at + 2].copy_from_slice(&4090u16.to_le_bytes());
        assert_eq!(records(&page).last(), Some(Record::Damaged));
        page[at..at + 2].copy_from_slice(&8u16.to_le_bytes());
        page[at + 2..at + 4].copy_from_slice(&tag::MODULE.to_le_bytes());
        assert_eq!(records(&page).last(), Some(Record::Damaged));
    }

    #[test]
    fn long_text_is_cut_not_refused() {
        let mut buf = [0u8; PAGE];
        let n = encode_text(tag::CMDLINE, &[b'x'; 9000], &mut buf);
        assert!(n <= PAGE - RECORDS_AT);
        let path = [b'p'; 5000];
        let module = Module {
            id: 1,
            bias: 0,
            start: 0,
            end: 1,
            first_node: 0,
            last_node: 0,
            build_id: &[1; 64],
            path: &path,
        };
        assert!(module.encode(&mut buf) <= PAGE - RECORDS_AT);
    }
}
