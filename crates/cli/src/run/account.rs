//! What is known of a run.

use super::memory::Memory;
use crate::launch::Ending;
use homefree_wire::account::{ALLOCATOR, AccountValue, COMMAND, RoleValue, SIZE, flags, state};

/// One process image, as its page has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// The figures.
    pub figures: AccountValue,
    /// File name of the allocator's library.
    pub allocator: String,
    /// Its arguments, the first its name for itself.
    pub command: Vec<String>,
    /// Roles, the one with the largest flow first.
    pub roles: Vec<Role>,
    /// What the system said last, or at an orderly end.
    pub memory: Memory,
}

/// What the threads of a role allocated and freed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Role {
    /// Thread names with their numbers folded.
    pub name: String,
    /// Threads.
    pub threads: u64,
    /// Bytes.
    pub allocated: u64,
    /// Bytes.
    pub freed: u64,
}

impl Role {
    /// Bytes that its threads allocated more than they freed: sent to others, or held still.
    pub fn sent(&self) -> u64 {
        self.allocated.saturating_sub(self.freed)
    }

    /// Bytes that its threads freed more than they allocated: received from others.
    pub fn received(&self) -> u64 {
        self.freed.saturating_sub(self.allocated)
    }
}

impl Process {
    /// Reads a page; `None` where it is none of this version, or is being written just now.
    pub fn read(page: &[u8]) -> Option<Self> {
        let figures = AccountValue::read(page)?;
        if figures.turn & 1 == 1 {
            return None;
        }
        let text = |range: std::ops::Range<usize>| {
            let bytes = &page[range];
            let end = bytes.windows(2).position(|w| w == [0, 0]);
            String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len() - 1)]).into_owned()
        };
        let mut roles: Vec<_> = RoleValue::all(&figures, page)
            .map(|role| Role {
                name: String::from_utf8_lossy(&role.name())
                    .trim_end_matches('\0')
                    .to_owned(),
                threads: role.threads,
                allocated: role.allocated,
                freed: role.freed,
            })
            .collect();
        roles.sort_by_key(|r| std::cmp::Reverse(r.sent().max(r.received())));
        Some(Self {
            allocator: text(ALLOCATOR).trim_end_matches('\0').to_owned(),
            command: text(COMMAND)
                .split('\0')
                .filter(|a| !a.is_empty())
                .map(str::to_owned)
                .collect(),
            roles,
            memory: Memory {
                reserved: figures.reserved,
                resident: figures.resident,
            },
            figures,
        })
    }

    /// Whether it ended in order, so that its figures are exact.
    pub fn ended(&self) -> bool {
        self.figures.state == state::ENDED
    }

    /// Whether events were counted.
    pub fn counts(&self) -> bool {
        self.figures.flags & flags::COUNTS != 0
    }

    /// Whether it was forked.
    pub fn forked(&self) -> bool {
        self.figures.flags & flags::FORKED != 0
    }

    /// Its name for itself, without folders.
    pub fn name(&self) -> &str {
        let first = self.command.first().map_or("?", String::as_str);
        first.rsplit('/').next().unwrap_or(first)
    }
}

/// A run, as far as it is known.
#[derive(Debug, Clone)]
pub struct Report {
    /// The program's own process: the last image of it that counted.
    pub main: Option<Process>,
    /// All others, the one with the highest peak first.
    pub others: Vec<Process>,
    /// How it ended; none while it runs.
    pub ending: Option<Ending>,
    /// Seconds since it was started.
    pub seconds: f64,
}

/// Bytes of a page.
pub const BYTES: usize = SIZE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_go_one_way() {
        let role = |allocated, freed| Role {
            allocated,
            freed,
            ..Role::default()
        };
        assert_eq!((role(5, 3).sent(), role(5, 3).received()), (2, 0));
        assert_eq!((role(3, 5).sent(), role(3, 5).received()), (0, 2));
    }

    #[test]
    fn a_page_that_is_being_written_is_not_read() {
        use homefree_wire::account::{MAGIC, VERSION};
        let mut page = vec![0; BYTES];
        page[..8].copy_from_slice(&MAGIC);
        page[8] = VERSION as u8;
        page[COMMAND.start..COMMAND.start + 10].copy_from_slice(b"/bin/ls\0-l");
        let process = Process::read(&page).unwrap();
        assert_eq!(process.command, ["/bin/ls", "-l"]);
        assert_eq!(process.name(), "ls");
        page[40] = 1;
        assert_eq!(Process::read(&page), None);
    }
}
