//! Which module an address belongs to: found without the loader's lock, put on record once.
//!
//! glibc's `_dl_find_object` (2.35 and later) is lock-free and safe in a signal handler; it is what
//! libgcc itself asks. Elsewhere `dl_iterate_phdr` stands in. Both are asked only for addresses that
//! the caches above do not know.

use crate::arena::ARENA;
use crate::{nodes, unwind};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use homefree_thread::Lock;
use homefree_wire::{PAGE, PageHead, kind, records};

/// A loaded ELF object, as the loader knows it.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    pub start: usize,
    pub end: usize,
    pub bias: usize,
    /// Address of `.eh_frame_hdr`; 0 where there is none.
    pub eh_frame_hdr: usize,
    name: *const c_char,
}

#[repr(C)]
struct DlFindObject {
    flags: u64,
    map_start: usize,
    map_end: usize,
    link_map: *const LinkMap,
    eh_frame: usize,
    #[cfg(not(target_arch = "x86_64"))]
    eh_dbase: usize,
    reserved: [u64; 7],
}

/// Head of `struct link_map`, as `<link.h>` promises it.
#[repr(C)]
struct LinkMap {
    addr: usize,
    name: *const c_char,
}

type FindObject = unsafe extern "C" fn(*mut c_void, *mut DlFindObject) -> c_int;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn dl_find_object() -> Option<FindObject> {
    let f: usize;
    // SAFETY: loads a GOT entry: the function's address, or 0 where the libc has none (weak).
    unsafe {
        core::arch::asm!(
            ".weak _dl_find_object",
            "mov {f}, qword ptr [rip + _dl_find_object@GOTPCREL]",
            f = out(reg) f,
            options(nomem, nostack, preserves_flags),
        );
    }
    // SAFETY: null or the function, whose signature is fixed by <dlfcn.h>.
    unsafe { core::mem::transmute::<usize, Option<FindObject>>(f) }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn dl_find_object() -> Option<FindObject> {
    None
}

/// `_dl_find_object` does not know our own object, or not whole: a static program. Such a one has one object, which
/// the other way finds.
static STATIC: AtomicBool = AtomicBool::new(false);

/// Finds out how to ask for objects. Once, before the first.
pub(crate) fn init() {
    // (glibc's finds one in a static program too, but with its text segment only.)
    if object(init as *const () as usize).is_none_or(|own| own.header().is_none()) {
        STATIC.store(true, Ordering::Relaxed);
    }
}

/// The object mapped at an address. The name is only valid while the object stays loaded, which it does
/// while one of its frames is on the caller's stack.
pub(crate) fn object(address: usize) -> Option<Object> {
    let Some(find) = dl_find_object().filter(|_| !STATIC.load(Ordering::Relaxed)) else {
        return iterate(address);
    };
    // SAFETY: an all-zero result is a valid value.
    let mut found: DlFindObject = unsafe { core::mem::zeroed() };
    // SAFETY: any address may be asked for.
    if unsafe { find(address as *mut c_void, &mut found) } != 0 || found.link_map.is_null() {
        return None;
    }
    // SAFETY: the loader's own record of a loaded object.
    let map = unsafe { &*found.link_map };
    Some(Object {
        start: found.map_start,
        end: found.map_end,
        bias: map.addr,
        eh_frame_hdr: found.eh_frame,
        name: map.name,
    })
}

#[cold]
fn iterate(address: usize) -> Option<Object> {
    struct Search {
        address: usize,
        found: Option<Object>,
    }
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _: usize,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes its record and the pointer given below.
        let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
        // SAFETY: as many program headers as the loader says.
        let headers =
            unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
        let bias = info.dlpi_addr as usize;
        let (mut start, mut end, mut hdr) = (usize::MAX, 0, 0);
        for h in headers {
            let at = bias.wrapping_add(h.p_vaddr as usize);
            match h.p_type {
                libc::PT_LOAD => {
                    start = start.min(at & !(PAGE - 1));
                    end = end.max(at + h.p_memsz as usize);
                }
                libc::PT_GNU_EH_FRAME => hdr = at,
                _ => {}
            }
        }
        if (start..end).contains(&search.address) {
            search.found = Some(Object {
                start,
                end,
                bias,
                eh_frame_hdr: hdr,
                name: info.dlpi_name,
            });
            return 1;
        }
        0
    }
    let mut search = Search {
        address,
        found: None,
    };
    // SAFETY: `visit` takes what it is given here.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

impl Object {
    fn header(&self) -> Option<&libc::Elf64_Ehdr> {
        // The first page of a loaded object holds its ELF header unless it was linked in some rare way;
        // then the magic number is missing.
        // SAFETY: mapped and readable while the object is loaded; any bytes are a valid header.
        let header = unsafe { &*(self.start as *const libc::Elf64_Ehdr) };
        (header.e_ident[..4] == *b"\x7fELF"
            && header.e_phentsize as usize == size_of::<libc::Elf64_Phdr>())
        .then_some(header)
    }

    fn program_headers(&self) -> &[libc::Elf64_Phdr] {
        let Some(header) = self.header() else {
            return &[];
        };
        let (offset, count) = (header.e_phoff as usize, header.e_phnum as usize);
        let size = count * size_of::<libc::Elf64_Phdr>();
        if offset > PAGE || size > PAGE - offset || !offset.is_multiple_of(8) {
            return &[];
        }
        // SAFETY: within the first page, checked; the object stays loaded.
        unsafe {
            core::slice::from_raw_parts((self.start + offset) as *const libc::Elf64_Phdr, count)
        }
    }

    /// The bytes of the loaded segment that holds `address`, from there to the segment's end in the file.
    pub fn segment_from(&self, address: usize) -> Option<&[u8]> {
        self.program_headers().iter().find_map(|h| {
            let start = self.bias.wrapping_add(h.p_vaddr as usize);
            let end = start + h.p_filesz as usize;
            let readable = h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_R != 0;
            (readable && (start..end).contains(&address) && end <= self.end).then(|| {
                // SAFETY: inside a readable loaded segment.
                unsafe { core::slice::from_raw_parts(address as *const u8, end - address) }
            })
        })
    }

    fn build_id(&self) -> &[u8] {
        for h in self
            .program_headers()
            .iter()
            .filter(|h| h.p_type == libc::PT_NOTE)
        {
            let at = self.bias.wrapping_add(h.p_vaddr as usize);
            let Some(notes) = self.segment_from(at) else {
                continue;
            };
            let mut notes = &notes[..notes.len().min(h.p_filesz as usize)];
            while let Some((head, rest)) = notes.split_first_chunk::<12>() {
                let word = |i: usize| {
                    u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]) as usize
                };
                let (name_len, desc_len, tag) = (word(0), word(4), word(8));
                let desc_at = name_len.next_multiple_of(4);
                let Some(desc) = rest.get(desc_at..desc_at.saturating_add(desc_len)) else {
                    break;
                };
                if tag == 3 && rest.starts_with(b"GNU\0") {
                    return desc;
                }
                notes = rest
                    .get(desc_at + desc_len.next_multiple_of(4)..)
                    .unwrap_or(&[]);
            }
        }
        &[]
    }

    fn path(&self) -> &[u8] {
        if self.name.is_null() {
            return b"";
        }
        // SAFETY: the loader's own string, valid while the object is loaded.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
    }

    /// Whether this is libc, libpthread or the C++ runtime, whose frames start every thread.
    pub fn starts_threads(&self) -> bool {
        let base = self.path().rsplit(|&b| b == b'/').next().unwrap_or(b"");
        [
            &b"libc.so"[..],
            b"libc-2",
            b"libpthread",
            b"libstdc++",
            b"ld-musl",
            b"libc++",
        ]
        .iter()
        .any(|name| base.starts_with(name))
    }
}

/// Modules remembered at a time.
const MAX: usize = 4096;

#[derive(Clone, Copy)]
struct Known {
    start: usize,
    end: usize,
    /// Hash of build id and path.
    identity: u64,
    /// Address of the record's `last_node`; 0 for none.
    last_node: usize,
}

struct Modules {
    known: [Known; MAX],
    len: usize,
    last_id: u32,
    page: u32,
    at: usize,
    seq: u32,
    buffer: records::Buffer,
}

static MODULES: Lock<Modules> = Lock::new(Modules {
    known: [Known {
        start: 0,
        end: 0,
        identity: 0,
        last_node: 0,
    }; MAX],
    len: 0,
    last_id: 0,
    page: 0,
    at: 0,
    seq: 0,
    buffer: [0; PAGE],
});

/// Changes whenever an address may mean another module than before.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// See [`GENERATION`]; cheap enough to ask at every event.
#[inline(always)]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Acquire)
}

/// Forgets what is cached about addresses.
pub(crate) fn flush() {
    unwind::forget_rules();
    GENERATION.fetch_add(1, Ordering::AcqRel);
}

/// Opens the lock in fork's child.
///
/// # Safety
/// No other thread exists and the caller holds no guard.
pub(crate) unsafe fn after_fork() {
    // SAFETY: the caller's promise. A record may be half written; its page is then left.
    if unsafe { MODULES.force_open() } {
        MODULES.lock().page = 0;
    }
}

/// In fork's child, after the profile was copied: drops what the parent appended since the fork.
pub(crate) fn forget_newer_records() {
    let modules = MODULES.lock();
    if modules.page != 0 {
        let page = ARENA.page(modules.page);
        // SAFETY: the rest of the page, in private memory, written under the lock only.
        unsafe {
            page.as_ptr()
                .add(modules.at)
                .write_bytes(0, PAGE - modules.at)
        };
        // SAFETY: the page's head; atomics only.
        unsafe { page.cast::<PageHead>().as_ref() }
            .owner
            .store(modules.at as u32, Ordering::Relaxed);
    }
}

/// Appends a role to the file; returns the record's address, 0 where there is no room.
pub(crate) fn append_role(role: &records::Role<'_>) -> usize {
    let mut modules = MODULES.lock();
    let len = role.encode(&mut modules.buffer);
    modules.append_buffer(len)
}

/// Appends a record that is only text.
pub(crate) fn append_text(tag: u16, text: &[u8]) {
    let mut modules = MODULES.lock();
    let len = records::encode_text(tag, text, &mut modules.buffer);
    modules.append_buffer(len);
}

impl Modules {
    fn append_buffer(&mut self, len: usize) -> usize {
        if self.page == 0 || self.at + len > PAGE {
            let Some(page) = ARENA.add_page(kind::RECORDS, self.seq, 0) else {
                return 0;
            };
            self.page = page;
            self.seq += 1;
            self.at = records::RECORDS_AT;
        }
        let bytes = &self.buffer[..len];
        let page = ARENA.page(self.page);
        // SAFETY: the page is written by the lock's holder only; the record fits. Its length comes last.
        let place = unsafe { page.as_ptr().add(self.at) };
        // SAFETY: as above.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes[2..].as_ptr(), place.add(2), bytes.len() - 2)
        };
        // SAFETY: as above.
        unsafe { place.cast::<[u8; 2]>().write_volatile([bytes[0], bytes[1]]) };
        self.at += bytes.len();
        // SAFETY: the page's head; atomics only.
        unsafe { page.cast::<PageHead>().as_ref() }
            .owner
            .store(self.at as u32, Ordering::Release);
        place as usize
    }

    fn register(&mut self, object: &Object, identity: u64) {
        let overlaps = |k: &Known| k.start < object.end && object.start < k.end;
        let mut at = 0;
        let mut replaced = false;
        while at < self.len {
            let known = self.known[at];
            if !overlaps(&known) {
                at += 1;
                continue;
            }
            if known.last_node != 0 {
                // SAFETY: the word in the record written by `append_buffer`, 8-byte aligned, in the arena.
                let last = unsafe { &*(known.last_node as *const AtomicU64) };
                last.store(u64::from(nodes::count()), Ordering::Relaxed);
            }
            nodes::retire(known.start, known.end);
            replaced = true;
            self.len -= 1;
            self.known[at] = self.known[self.len];
        }
        let module = records::Module {
            id: self.last_id + 1,
            bias: object.bias as u64,
            start: object.start as u64,
            end: object.end as u64,
            first_node: u64::from(nodes::count()),
            last_node: records::STILL_MAPPED,
            build_id: object.build_id(),
            path: object.path(),
        };
        let len = module.encode(&mut self.buffer);
        let place = self.append_buffer(len);
        self.last_id += 1;
        // A module that found no room is tried again.
        if place != 0 && self.len < MAX {
            self.known[self.len] = Known {
                start: object.start,
                end: object.end,
                identity,
                last_node: place + records::MODULE_LAST_NODE_AT,
            };
            self.len += 1;
        }
        if replaced {
            flush();
        }
    }
}

fn hash(parts: [&[u8]; 2]) -> u64 {
    // FNV-1a, 64 bits.
    parts
        .iter()
        .flat_map(|p| p.iter().chain(&[0]))
        .fold(0xcbf2_9ce4_8422_2325, |h, &b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        })
}

/// Puts the module at an address on record if it is not yet; returns what the loader says of it.
pub(crate) fn ensure(address: usize) -> Option<Object> {
    let object = object(address)?;
    let identity = hash([object.build_id(), object.path()]);
    let mut modules = MODULES.lock();
    let len = modules.len;
    let known = modules.known[..len]
        .iter()
        .any(|k| (k.start, k.end, k.identity) == (object.start, object.end, identity));
    if !known && len < MAX {
        modules.register(&object, identity);
    }
    Some(object)
}

/// Path of the module at an address, for a record; empty where none is.
pub(crate) fn path_of(address: usize, out: &mut [u8]) -> usize {
    let Some(object) = NonNull::new(address as *mut u8).and_then(|_| object(address)) else {
        return 0;
    };
    let path = object.path();
    let len = path.len().min(out.len());
    out[..len].copy_from_slice(&path[..len]);
    len
}
