//! Executables: can the loader put a library into this one, and will the program's `malloc` be ours?

use super::answer;
use crate::failure::{Failure, status};
use memmap2::Mmap;
use object::LittleEndian;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionTable, Sym};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

type Header = elf::FileHeader64<LittleEndian>;
type Sections<'a> = SectionTable<'a, Header>;

#[cfg(target_arch = "x86_64")]
const HOST: elf::Machine = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const HOST: elf::Machine = elf::EM_AARCH64;

/// Section that a program with `homefree::Recorded` in it has.
const RECORDER_INSIDE: &[u8] = b".homefree_recorded";

/// An executable that can be recorded.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recordable {
    /// It records itself: nothing needs to be preloaded.
    pub by_itself: bool,
    /// No library can be preloaded: it records itself, and is static.
    pub is_static: bool,
    /// Memory that will not be seen.
    pub notes: Vec<String>,
}

/// Checks an ELF executable.
///
/// # Errors
/// [`status::NOT_RECORDED`] with the reason where the recorder cannot be in this program.
pub fn check(path: &Path) -> Result<Recordable, Failure> {
    let read = |error: std::io::Error| {
        Failure::new(
            status::NOT_RECORDED,
            format!("not recorded: {} cannot be read: {error}", path.display()),
        )
    };
    let file = File::open(path).map_err(read)?;
    // SAFETY: the mapping is private and only read. A program file that someone truncates while we
    // look at it could end this process (SIGBUS), before the program was started; the kernel refuses
    // writes to files that are being executed, and installers replace rather than overwrite.
    let data = unsafe { Mmap::map(&file) }.map_err(read)?;
    examine(&path.display().to_string(), &data)
}

fn examine(name: &str, data: &[u8]) -> Result<Recordable, Failure> {
    architecture(name, data)?;
    let header = Header::parse(data).map_err(|error| answer::damaged(name, error))?;
    let sections = header
        .sections(LittleEndian, data)
        .map_err(|error| answer::damaged(name, error))?;
    if sections
        .section_by_name(LittleEndian, RECORDER_INSIDE)
        .is_some()
    {
        let interpreter = interpreter(header, data);
        return Ok(Recordable {
            by_itself: true,
            is_static: matches!(interpreter, Ok(None)),
            notes: Vec::new(),
        });
    }
    let dynamic = Dynamic::read(&sections, data);

    match interpreter(header, data).map_err(|error| answer::damaged(name, error))? {
        // The loader itself, called as a program, loads what LD_PRELOAD says.
        None if dynamic.soname.starts_with(b"ld-linux") => return Ok(Recordable::default()),
        None => return Err(answer::is_static(name, is_go(&sections))),
        Some(interpreter) => musl(name, interpreter)?,
    }
    if let Some(runtime) = dynamic.needed.iter().find(|n| sanitizer(n)) {
        return Err(answer::sanitized(name, &String::from_utf8_lossy(runtime)));
    }
    let defined = defined_in(&sections, data, elf::SHT_DYNSYM, |symbol| {
        matches!(
            symbol,
            b"malloc" | b"free" | b"__asan_init" | b"__tsan_init"
        )
    });
    if let Some(runtime) = defined.iter().find(|n| n.ends_with("san_init")) {
        return Err(answer::sanitized(name, runtime));
    }
    if let Some(symbol) = defined.first() {
        return Err(answer::own_allocator(name, symbol));
    }
    Ok(Recordable {
        by_itself: false,
        is_static: false,
        notes: notes(&sections, data),
    })
}

fn architecture(name: &str, data: &[u8]) -> Result<(), Failure> {
    let class = data.get(4).copied().unwrap_or(0);
    let little = data.get(5) == Some(&1);
    let machine = match data.get(18..20) {
        Some(&[a, b]) if little => elf::Machine(u16::from_le_bytes([a, b])),
        Some(&[a, b]) => elf::Machine(u16::from_be_bytes([a, b])),
        _ => {
            return Err(Failure::new(
                status::CANNOT_RUN,
                format!("{name}: cut inside its ELF header"),
            ));
        }
    };
    if class == 2 && little && machine == HOST {
        return Ok(());
    }
    Err(answer::other_architecture(name, class == 1, machine))
}

fn interpreter<'a>(header: &Header, data: &'a [u8]) -> object::read::Result<Option<&'a [u8]>> {
    for segment in header.program_headers(LittleEndian, data)? {
        if let Some(interpreter) = segment.interpreter(LittleEndian, data)? {
            return Ok(Some(interpreter));
        }
    }
    Ok(None)
}

fn musl(name: &str, interpreter: &[u8]) -> Result<(), Failure> {
    let path = Path::new(OsStr::from_bytes(interpreter));
    if interpreter.windows(4).any(|w| w == b"musl") {
        return Err(answer::musl(name, path));
    }
    if !path.exists() {
        return Err(answer::no_loader(name, path));
    }
    Ok(())
}

fn sanitizer(needed: &[u8]) -> bool {
    [
        &b"libasan."[..],
        b"libtsan.",
        b"liblsan.",
        b"libhwasan.",
        b"libclang_rt.",
    ]
    .iter()
    .any(|prefix| needed.starts_with(prefix))
}

fn is_go(sections: &Sections) -> bool {
    sections
        .section_by_name(LittleEndian, b".go.buildinfo")
        .is_some()
}

/// Allocators inside the program under names of their own: seen only where the symbols were not stripped.
fn notes(sections: &Sections, data: &[u8]) -> Vec<String> {
    let mut notes = Vec::new();
    if is_go(sections) {
        notes.push("it is a Go program: Go's own heap is not malloc's and is not recorded, only what C code in it allocates".into());
    }
    let inside = defined_in(sections, data, elf::SHT_SYMTAB, |symbol| {
        matches!(
            symbol,
            b"_rjem_malloc"
                | b"je_malloc"
                | b"mi_malloc"
                | b"tc_malloc"
                | b"sn_malloc"
                | b"sn_rust_alloc"
                | b"rpmalloc"
        )
    });
    if let Some(symbol) = inside.first() {
        notes.push(format!(
            "it carries an allocator of its own (`{symbol}`): what goes through that is not recorded, only what goes through the libc's malloc; {}",
            answer::RECORDED
        ));
    }
    notes
}

/// Names of the functions that the table of the given kind defines and `wanted` asks for.
fn defined_in(
    sections: &Sections,
    data: &[u8],
    table: object::elf::SectionType,
    wanted: impl Fn(&[u8]) -> bool,
) -> Vec<String> {
    let Ok(symbols) = sections.symbols(LittleEndian, data, table) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for symbol in symbols.iter() {
        if symbol.is_undefined(LittleEndian) {
            continue;
        }
        if let Ok(name) = symbol.name(LittleEndian, symbols.strings())
            && wanted(name)
        {
            found.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    found
}

/// What the dynamic section names.
#[derive(Default)]
struct Dynamic<'a> {
    soname: &'a [u8],
    needed: Vec<&'a [u8]>,
}

impl<'a> Dynamic<'a> {
    fn read(sections: &Sections<'a>, data: &'a [u8]) -> Self {
        use object::read::elf::Dyn;
        let mut dynamic = Self::default();
        let Ok(Some((entries, link))) = sections.dynamic(LittleEndian, data) else {
            return dynamic;
        };
        let Ok(strings) = sections.strings(LittleEndian, data, link) else {
            return dynamic;
        };
        for entry in entries {
            let tag = entry.d_tag(LittleEndian);
            let text = entry.string(LittleEndian, strings).unwrap_or_default();
            if tag == elf::DT_NEEDED {
                dynamic.needed.push(text);
            } else if tag == elf::DT_SONAME {
                dynamic.soname = text;
            }
        }
        dynamic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_file(path: &str) -> Result<Recordable, Failure> {
        check(Path::new(path))
    }

    #[test]
    fn ordinary_programs_and_the_loader_itself_pass() {
        assert_eq!(check_file("/bin/ls"), Ok(Recordable::default()));
        let ls = std::fs::read("/bin/ls").unwrap();
        let header = Header::parse(&*ls).unwrap();
        let loader = interpreter(header, &ls).unwrap().unwrap();
        let loader = Path::new(OsStr::from_bytes(loader));
        assert_eq!(check(loader), Ok(Recordable::default()));
    }

    #[test]
    fn a_static_program_is_called_static() {
        // Debian's ldconfig must work before any library does.
        let failure = check_file("/sbin/ldconfig").unwrap_err();
        assert_eq!(failure.status, status::NOT_RECORDED);
        assert!(failure.what.contains("statically linked"), "{failure}");
        assert!(failure.advice.contains("homefree::Recorded"), "{failure}");
    }

    #[test]
    fn a_static_program_that_records_itself_passes() {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("p.c"), dir.path().join("p"));
        let text = "__attribute__((section(\".homefree_recorded\"), used)) static char mark;\n\
                    int main(void) { return 0; }\n";
        std::fs::write(&source, text).unwrap();
        let built = std::process::Command::new("cc")
            .args(["-static", "-s", "-o"])
            .args([&program, &source])
            .status();
        assert!(built.unwrap().success());
        assert!(check(&program).unwrap().by_itself);
    }

    #[test]
    fn other_architectures_are_named() {
        let mut ls = std::fs::read("/bin/ls").unwrap();
        let said = |data: &[u8]| examine("prog", data).unwrap_err().what;
        ls[18] = 0xF3;
        assert!(said(&ls).contains("RISC-V"));
        (ls[4], ls[18]) = (1, 3);
        assert!(said(&ls).contains("32-bit program for x86"));
        assert!(said(b"\x7fELF\x02\x01").contains("cut"));
    }

    #[test]
    fn musl_and_missing_loaders_are_told_apart() {
        let musl = musl("prog", b"/lib/ld-musl-x86_64.so.1").unwrap_err();
        assert_eq!(musl.status, status::NOT_RECORDED);
        let missing = super::musl("prog", b"/lib/no-such-loader.so").unwrap_err();
        assert_eq!(missing.status, status::CANNOT_RUN);
    }

    #[test]
    fn sanitizer_runtimes_are_known() {
        assert!(sanitizer(b"libasan.so.8"));
        assert!(!sanitizer(b"libc.so.6"));
        assert!(!sanitizer(b"libubsan.so.1"));
    }

    #[test]
    fn damaged_files_never_panic() {
        let ls = std::fs::read("/bin/ls").unwrap();
        for len in (0..4096).chain((4096..ls.len()).step_by(1021)) {
            let _ = examine("prog", &ls[..len]);
        }
        for at in 4..4096 {
            let mut bad = ls.clone();
            bad[at] ^= 0xff;
            let _ = examine("prog", &bad);
        }
    }
}
