//! Counts the instructions of a function's short way.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    Register,
};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// What a way through a function is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub instructions: usize,
    pub branches: usize,
    /// Functions of other objects that it calls or ends in, by name.
    pub calls: Vec<String>,
    pub loads: usize,
    pub stores: usize,
    /// Adds and the like to memory, by one instruction.
    pub updates: usize,
    /// Atomic read-modify-writes.
    pub locked: usize,
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} instructions, {} branches, {} loads, {} stores, {} updates, {} locked, calls {}",
            self.instructions,
            self.branches,
            self.loads,
            self.stores,
            self.updates,
            self.locked,
            self.calls.join(" ")
        )
    }
}

/// A built artifact.
pub struct Artifact {
    bytes: Vec<u8>,
    /// Names of imported functions by the address of their slot.
    imports: HashMap<u64, String>,
}

impl Artifact {
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let file = object::File::parse(&*bytes).unwrap();
        let names: HashMap<_, _> = file
            .dynamic_symbols()
            .map(|symbol| (symbol.index(), symbol.name().unwrap_or("").to_owned()))
            .collect();
        let imports = file
            .dynamic_relocations()
            .into_iter()
            .flatten()
            .filter_map(|(at, relocation)| match relocation.target() {
                RelocationTarget::Symbol(index) => Some((at, names.get(&index)?.clone())),
                _ => None,
            })
            .collect();
        Self { bytes, imports }
    }

    /// The short way of the function whose symbol ends so: the shortest that adds to thread-local memory, and
    /// leaves the function only for imported ones.
    pub fn short_way(&self, symbol: &str) -> Census {
        let file = object::File::parse(&*self.bytes).unwrap();
        let function = file
            .symbols()
            .find(|s| s.name().is_ok_and(|name| name.ends_with(symbol)) && s.size() > 0)
            .unwrap_or_else(|| panic!("no function {symbol}"));
        let section = file
            .section_by_index(function.section_index().unwrap())
            .unwrap();
        let at = (function.address() - section.address()) as usize;
        let code = &section.data().unwrap()[at..at + function.size() as usize];
        let walk = Walk {
            code,
            start: function.address(),
            imports: &self.imports,
        };
        let mut found = Vec::new();
        walk.from(function.address(), Vec::new(), &mut found);
        found
            .into_iter()
            .min_by_key(|way| way.instructions)
            .unwrap_or_else(|| panic!("{symbol} has no short way"))
    }
}

struct Walk<'a> {
    code: &'a [u8],
    start: u64,
    imports: &'a HashMap<u64, String>,
}

impl Walk<'_> {
    fn decode(&self, at: u64) -> Option<Instruction> {
        let offset = at.checked_sub(self.start)? as usize;
        let code = self.code.get(offset..).filter(|code| !code.is_empty())?;
        let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
        Some(decoder.decode()).filter(|i| !i.is_invalid())
    }

    /// Follows every way from `at` on; `way` is how it came there.
    fn from(&self, mut at: u64, mut way: Vec<Instruction>, found: &mut Vec<Census>) {
        while let Some(instruction) = self.decode(at) {
            if way.iter().any(|seen| seen.ip() == at) {
                return; // a loop is not short
            }
            way.push(instruction);
            at = instruction.next_ip();
            match instruction.flow_control() {
                FlowControl::Next => {}
                FlowControl::ConditionalBranch => {
                    self.from(instruction.near_branch_target(), way.clone(), found);
                }
                FlowControl::UnconditionalBranch => at = instruction.near_branch_target(),
                FlowControl::IndirectCall => {
                    if self.import(&instruction).is_none() {
                        return;
                    }
                }
                FlowControl::Return | FlowControl::IndirectBranch => {
                    found.extend(self.census(&way));
                    return;
                }
                _ => return,
            }
        }
    }

    fn import(&self, instruction: &Instruction) -> Option<&String> {
        instruction
            .is_ip_rel_memory_operand()
            .then(|| self.imports.get(&instruction.ip_rel_memory_address()))?
    }

    fn census(&self, way: &[Instruction]) -> Option<Census> {
        let mut census = Census {
            instructions: way.len(),
            ..Census::default()
        };
        let mut counts = false;
        let mut info = InstructionInfoFactory::new();
        for instruction in way {
            census.locked += usize::from(
                instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg,
            );
            match instruction.flow_control() {
                FlowControl::Next => {}
                FlowControl::ConditionalBranch => census.branches += 1,
                FlowControl::IndirectCall | FlowControl::IndirectBranch => {
                    census.calls.push(self.import(instruction)?.clone());
                    continue;
                }
                _ => continue,
            }
            // What `push` and `pop` do to the stack is not counted.
            if instruction.is_stack_instruction() {
                continue;
            }
            let (mut reads, mut writes) = (false, false);
            for memory in info.info(instruction).used_memory() {
                reads |= matches!(
                    memory.access(),
                    OpAccess::Read | OpAccess::ReadWrite | OpAccess::CondRead
                );
                writes |= matches!(memory.access(), OpAccess::Write | OpAccess::ReadWrite);
                if memory.segment() == Register::FS && reads && writes {
                    counts |= instruction.mnemonic() == Mnemonic::Add;
                    // The slow ways take back what they added.
                    if instruction.mnemonic() == Mnemonic::Sub {
                        return None;
                    }
                }
            }
            match (reads, writes) {
                (true, true) => census.updates += 1,
                (true, false) => census.loads += 1,
                (false, true) => census.stores += 1,
                (false, false) => {}
            }
        }
        counts.then_some(census)
    }
}
