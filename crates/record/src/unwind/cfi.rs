//! Call-frame information, read with gimli from the loaded module, without allocation.

use super::rules::{Ending, Fp, Row};
use crate::modules::{self, Object};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian,
    Operation, ParsedEhFrameHdr, Register, RegisterRule, UnwindContext, UnwindContextStorage,
    UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};
use homefree_thread::Lock;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Room for a few table rows. (The psABI's callee-saved registers and the return address are seven.)
struct Storage;

/// What gimli works with: not on the stack, which is the program's and may be a signal handler's of a
/// few KiB.
static CONTEXT: Lock<Option<UnwindContext<usize, Storage>>> = Lock::new(None);

/// Opens the lock in fork's child.
///
/// # Safety
/// No other thread exists and the caller holds no guard.
pub(super) unsafe fn after_fork() {
    // SAFETY: the caller's promise. What was half done is thrown away.
    if unsafe { CONTEXT.force_open() } {
        *CONTEXT.lock() = None;
    }
}

impl UnwindContextStorage<usize> for Storage {
    type Rules = [(Register, RegisterRule<usize>); 12];
    type Stack = [UnwindTableRow<usize, Self>; 3];
}

struct Sections<'a> {
    header: ParsedEhFrameHdr<Bytes<'a>>,
    frames: EhFrame<Bytes<'a>>,
    bases: BaseAddresses,
}

fn sections(object: &Object) -> Option<Sections<'_>> {
    let at = object.eh_frame_hdr;
    let bytes = object.segment_from(at)?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(at as u64);
    let header = EhFrameHdr::new(bytes, LittleEndian).parse(&bases, 8).ok()?;
    let frames_at = header.eh_frame_ptr().direct().ok()?;
    let frames = EhFrame::new(object.segment_from(frames_at as usize)?, LittleEndian);
    Some(Sections {
        header,
        frames,
        bases: bases.set_eh_frame(frames_at),
    })
}

impl<'a> Sections<'a> {
    fn entry(&self, pc: usize) -> Option<FrameDescriptionEntry<Bytes<'a>>> {
        self.header
            .table()?
            .fde_for_address(
                &self.frames,
                &self.bases,
                pc as u64,
                EhFrame::cie_from_offset,
            )
            .ok()
    }
}

/// The rule at return address `pc`. `None` where the module has no information for it.
pub(super) fn row(object: &Object, pc: usize) -> Option<Row> {
    let sections = sections(object)?;
    // The call is the instruction before the return address. A signal's return trampoline is not
    // called, but entered by a return; its information covers the byte before.
    let entry = sections.entry(pc - 1)?;
    if entry.is_signal_trampoline() {
        return Some(Row::End(Ending::Signal));
    }
    let mut context = CONTEXT.lock();
    let context = context.get_or_insert_with(UnwindContext::new_in);
    let row = entry
        .unwind_info_for_address(&sections.frames, &sections.bases, context, pc as u64 - 1)
        .ok()?;
    Some(compact(row, &sections.frames).unwrap_or(Row::End(Ending::Cut)))
}

fn compact(row: &UnwindTableRow<usize, Storage>, frames: &EhFrame<Bytes<'_>>) -> Option<Row> {
    match row.register(X86_64::RA) {
        Some(RegisterRule::Offset(-8)) => {}
        Some(RegisterRule::Undefined) => return Some(Row::End(Ending::Complete)),
        _ => return None,
    }
    let (from_fp, deref, offset) = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            (from_fp(*register)?, false, i32::try_from(*offset).ok()?)
        }
        CfaRule::Expression(e) => {
            let (register, offset, deref) = register_offset(e, frames)?;
            (from_fp(register)?, deref, offset)
        }
    };
    let fp = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => Fp::Same,
        Some(RegisterRule::Offset(at)) => Fp::At(i32::try_from(at).ok()?),
        Some(RegisterRule::Expression(e)) => match register_offset(&e, frames)? {
            (X86_64::RBP, at, false) => Fp::FromFrame(at),
            _ => return None,
        },
        _ => return None,
    };
    Some(Row::Frame {
        from_fp,
        deref,
        offset,
        fp,
    })
}

fn from_fp(register: Register) -> Option<bool> {
    match register {
        X86_64::RBP => Some(true),
        X86_64::RSP => Some(false),
        _ => None,
    }
}

/// An expression of the form `register + offset`, with or without one load: what compilers emit for
/// realigned stacks.
fn register_offset(
    e: &UnwindExpression<usize>,
    frames: &EhFrame<Bytes<'_>>,
) -> Option<(Register, i32, bool)> {
    let mut operations = e.get(frames).ok()?.operations(gimli::Encoding {
        address_size: 8,
        format: gimli::Format::Dwarf32,
        version: 4,
    });
    let Operation::RegisterOffset {
        register, offset, ..
    } = operations.next().ok()??
    else {
        return None;
    };
    let deref = match operations.next().ok()? {
        None => false,
        Some(Operation::Deref {
            size: 8,
            space: false,
            ..
        }) => true,
        Some(_) => return None,
    };
    match operations.next().ok()? {
        None => Some((register, i32::try_from(offset).ok()?, deref)),
        Some(_) => None,
    }
}

/// Start of the function around a return address.
pub(super) fn function_start(pc: usize) -> Option<usize> {
    let object = modules::object(pc)?;
    Some(sections(&object)?.entry(pc - 1)?.initial_address() as usize)
}
