//! Names, lines, inlined functions, and when there are none. Builds one small C library.

use super::{MAIN, json, report, text};
use crate::synthetic::Writer;
use crate::{Options, Profile};
use homefree_wire::records::role_kind;
use object::{Object, ObjectSymbol};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "
static inline __attribute__((always_inline)) int innermost(volatile int *p) { return *p + 1; }
static inline __attribute__((always_inline)) int middle(volatile int *p) { return innermost(p) * 3; }
int outermost(volatile int *p) { return middle(p); }
int other(volatile int *p) { return *p * 7; }
";
const BASE: u64 = 0x7f00_0000;

struct Library {
    dir: tempfile::TempDir,
    path: PathBuf,
    build_id: Vec<u8>,
    outermost: std::ops::Range<u64>,
}

fn run(program: &str, args: &[&str]) {
    let status = Command::new(program).args(args).status();
    assert!(status.is_ok_and(|s| s.success()), "{program} {args:?}");
}

impl Library {
    fn build(flags: &[&str]) -> Library {
        let dir = tempfile::tempdir().expect("a folder");
        let source = dir.path().join("nested.c");
        std::fs::write(&source, SOURCE).expect("written");
        let path = dir.path().join("libnested.so");
        let files = [source.display().to_string(), path.display().to_string()];
        let mut args = vec!["-g", "-O2", "-shared", "-fPIC", &files[0], "-o", &files[1]];
        args.extend(flags);
        run("cc", &args);
        let bytes = std::fs::read(&path).expect("built");
        let elf = object::File::parse(&bytes[..]).expect("ELF");
        let symbol = elf
            .symbols()
            .find(|s| s.name() == Ok("outermost"))
            .expect("defined");
        let outermost = symbol.address()..symbol.address() + symbol.size();
        let build_id = elf.build_id().expect("ELF").unwrap_or_default().to_vec();
        Library {
            path,
            build_id,
            outermost,
            dir,
        }
    }

    /// A profile with one flow from each address of `outermost`, as calls.
    fn profile(&self, build_id: &[u8], path: &str, start_ns: Option<u64>) -> Profile {
        let mut w = Writer::new(1);
        w.header.start_realtime_ns = start_ns.unwrap_or(u64::MAX / 2);
        w.module(1, (BASE, BASE + 0x10_0000), build_id, path);
        w.role(MAIN, role_kind::MAIN, "main", 0);
        let thread = w.thread(MAIN);
        for at in self.outermost.clone() {
            let node = w.stack(&[BASE + at + 1]);
            w.freed(thread, (MAIN, node), node, 1, 1, 100);
        }
        super::open(&w.finish())
    }

    fn honest(&self) -> Profile {
        self.profile(&self.build_id, &self.path.display().to_string(), None)
    }

    fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }
}

/// Functions of the flow with the deepest stack: name and whether inlined, innermost first.
fn deepest(profile: Profile) -> Vec<(String, bool, Value, Value)> {
    let json = json(vec![profile], &Options::default());
    let flows = json["flows"].as_array().expect("a list");
    let stacks = flows.iter().filter_map(|f| f["alloc_stack"].as_array());
    let deepest = stacks.max_by_key(|s| s.len()).expect("a flow");
    let frame = |f: &Value| {
        let name = f["function"].as_str().unwrap_or("?").to_owned();
        (
            name,
            f["inlined"] == true,
            f["file"].clone(),
            f["line"].clone(),
        )
    };
    deepest.iter().map(frame).collect()
}

fn names(profile: Profile) -> Vec<(String, bool)> {
    deepest(profile).into_iter().map(|f| (f.0, f.1)).collect()
}

fn nested() -> Vec<(String, bool)> {
    [("innermost", true), ("middle", true), ("outermost", false)]
        .map(|(name, inlined)| (name.to_owned(), inlined))
        .to_vec()
}

#[test]
fn inlined_functions_are_in_order_with_their_lines() {
    let library = Library::build(&["-Wl,--build-id"]);
    let frames = deepest(library.honest());
    let lines: Vec<_> = frames.iter().filter_map(|f| f.3.as_u64()).collect();
    assert_eq!(lines, [2, 3, 4]);
    assert!(
        frames
            .iter()
            .all(|f| f.2.as_str().is_some_and(|p| p.ends_with("/nested.c")))
    );
    assert_eq!(names(library.honest()), nested());
}

#[test]
fn a_stripped_library_has_exported_names_only_and_that_is_said() {
    let library = Library::build(&["-Wl,--build-id", "-fvisibility=hidden"]);
    run("strip", &[&library.file("libnested.so")]);
    assert_eq!(names(library.honest()), [("?".to_owned(), false)]);
    let text = text(&report(vec![library.honest()], &Options::default()), 200);
    assert!(text.contains("libnested.so+0x"), "{text}");
    assert!(text.contains("install debug symbols"), "{text}");
    let id: String = library
        .build_id
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    assert!(text.contains(&id), "{text}");
}

#[test]
fn functions_without_lines_are_said() {
    let library = Library::build(&["-Wl,--build-id"]);
    run("strip", &["--strip-debug", &library.file("libnested.so")]);
    assert_eq!(names(library.honest()), [("outermost".to_owned(), false)]);
    let text = text(&report(vec![library.honest()], &Options::default()), 200);
    assert!(text.contains("outermost  libnested.so"), "{text}");
    assert!(text.contains("no debug information"), "{text}");
}

#[test]
fn a_separate_debug_file_is_found_by_its_link() {
    for id in ["-Wl,--build-id", "-Wl,--build-id=none"] {
        let library = Library::build(&[id]);
        let (so, debug) = (
            library.file("libnested.so"),
            library.file("libnested.debug"),
        );
        run("objcopy", &["--only-keep-debug", &so, &debug]);
        run("strip", &[&so]);
        run("objcopy", &["--add-gnu-debuglink", &debug, &so]);
        assert_eq!(names(library.honest()), nested(), "{id}");
        // Another file of that name is not taken for it.
        std::fs::copy(&so, &debug).expect("copied");
        run(
            "cc",
            &[
                "-g",
                "-shared",
                "-fPIC",
                id,
                "-Doutermost=impostor",
                &library.file("nested.c"),
                "-o",
                &debug,
            ],
        );
        assert_eq!(
            names(library.honest()),
            [("outermost".to_owned(), false)],
            "{id}"
        );
    }
}

#[test]
fn symbols_of_another_build_are_not_shown() {
    let library = Library::build(&["-Wl,--build-id"]);
    let rebuilt = || library.profile(&[1; 20], &library.path.display().to_string(), None);
    assert_eq!(names(rebuilt()), [("?".to_owned(), false)]);
    let text = text(&report(vec![rebuilt()], &Options::default()), 200);
    assert!(text.contains("not the build that was recorded"), "{text}");
}

#[test]
fn without_a_build_id_a_newer_file_is_not_trusted() {
    let library = Library::build(&["-Wl,--build-id=none"]);
    assert!(library.build_id.is_empty());
    assert_eq!(names(library.honest()), nested());
    let old = || library.profile(&[], &library.path.display().to_string(), Some(1));
    assert_eq!(names(old()), [("?".to_owned(), false)]);
    let text = text(&report(vec![old()], &Options::default()), 200);
    assert!(text.contains("changed after the recording"), "{text}");
}

#[test]
fn deleted_and_missing_files_are_handled() {
    let library = Library::build(&["-Wl,--build-id"]);
    let deleted = format!("{} (deleted)", library.path.display());
    assert_eq!(
        names(library.profile(&library.build_id, &deleted, None)),
        nested()
    );
    let gone = || library.profile(&[5; 20], "/no/such/lib.so", None);
    assert_eq!(names(gone()), [("?".to_owned(), false)]);
    let text = text(&report(vec![gone()], &Options::default()), 200);
    assert!(text.contains("/no/such/lib.so is not there"), "{text}");
    let odd = library.profile(&[], Path::new("/etc/passwd").to_str().unwrap_or(""), None);
    assert_eq!(names(odd), [("?".to_owned(), false)]);
}

#[test]
fn a_perf_map_names_generated_code() {
    let pid = 4_000_000 + std::process::id();
    let map = format!("/tmp/perf-{pid}.map");
    let mut w = Writer::new(pid);
    w.role(MAIN, role_kind::MAIN, "main", 0);
    let thread = w.thread(MAIN);
    let node = w.stack(&[0x5000_0010]);
    w.freed(thread, (MAIN, node), node, 1, 1, 100);
    let bytes = w.finish();
    assert_eq!(names(super::open(&bytes)), [("?".to_owned(), false)]);
    std::fs::write(&map, "50000000 20 JS:*handle /app.js:3\n").expect("written");
    let found = names(super::open(&bytes));
    let stale = {
        let mut w = Writer::new(pid);
        w.header.start_realtime_ns = u64::MAX / 2;
        w.role(MAIN, role_kind::MAIN, "main", 0);
        let thread = w.thread(MAIN);
        let node = w.stack(&[0x5000_0010]);
        w.freed(thread, (MAIN, node), node, 1, 1, 100);
        names(super::open(&w.finish()))
    };
    std::fs::remove_file(&map).expect("removed");
    assert_eq!(found, [("JS:*handle /app.js:3".to_owned(), false)]);
    assert_eq!(stale, [("?".to_owned(), false)], "an earlier process's map");
}

/// Where `inlined` stands in this program.
#[inline(always)]
fn inlined() -> u64 {
    let pc: u64;
    // SAFETY: reads the program counter into a register, touches nothing else.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("lea {}, [rip]", out(reg) pc, options(nomem, nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("adr {}, .", out(reg) pc, options(nomem, nostack, preserves_flags));
    }
    pc
}

#[inline(never)]
fn caller() -> u64 {
    std::hint::black_box(inlined())
}

#[test]
fn rust_functions_are_demangled_and_sites_are_the_programs_own() {
    let pc = caller();
    let exe = std::env::current_exe().expect("a path");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let own = exe.display().to_string();
    let first = maps.lines().find(|l| l.ends_with(&own)).expect("mapped");
    let base = first
        .split('-')
        .next()
        .and_then(|s| u64::from_str_radix(s, 16).ok());
    let base = base.expect("an address");
    let bytes = std::fs::read(&exe).expect("readable");
    let elf = object::File::parse(&bytes[..]).expect("ELF");
    let build_id = elf.build_id().expect("ELF").unwrap_or_default();

    let mut w = Writer::new(1);
    w.header.start_realtime_ns = u64::MAX / 2;
    w.module(1, (base, base + bytes.len() as u64), build_id, &own);
    w.role(MAIN, role_kind::MAIN, "main", 0);
    let thread = w.thread(MAIN);
    let node = w.stack(&[pc]);
    w.freed(thread, (MAIN, node), node, 1, 1, 100);
    let bytes = w.finish();
    let module = module_path!();
    let expected = [
        (format!("{module}::inlined"), true),
        (format!("{module}::caller"), false),
    ];
    assert_eq!(names(super::open(&bytes)), expected);
    let text = text(&report(vec![super::open(&bytes)], &Options::default()), 200);
    assert!(text.contains("tests/symbols.rs:"), "{text}");
}
