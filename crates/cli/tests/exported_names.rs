//! The library exports the whole malloc family and nothing that would replace a function of the program.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use support::{Run, installed, library};

/// Defined dynamic symbols, without versions.
fn exports(file: &Path) -> BTreeSet<String> {
    let ran = Run::new("nm")
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(file)
        .run()
        .ended_well();
    ran.out()
        .lines()
        .filter_map(|line| line.split([' ', '@']).next())
        .map(str::to_owned)
        .collect()
}

/// The libc that programs here are linked to.
fn libc() -> String {
    let ran = Run::new("ldd")
        .arg(installed("cc").expect("a compiler"))
        .run()
        .ended_well();
    let out = ran.out();
    let line = out
        .lines()
        .find(|l| l.contains("libc.so.6"))
        .expect("a libc");
    line.split_whitespace().nth(2).expect("its path").to_owned()
}

/// Whether a name is one of those that give out or take back blocks, or look into one. Names with an underscore in front
/// are the libc's own, and not for programs.
fn of_the_family(name: &str) -> bool {
    let starts = [
        "malloc",
        "calloc",
        "realloc",
        "memalign",
        "valloc",
        "pvalloc",
        "aligned_alloc",
        "posix_memalign",
        "free_",
        "cfree",
    ];
    name == "free" || starts.iter().any(|start| name.starts_with(start))
}

/// Settings and statistics of the allocator behind: they touch no single block.
fn left_to_the_libc(name: &str) -> bool {
    [
        "malloc_trim",
        "malloc_stats",
        "malloc_info",
        "malloc_set_state",
        "malloc_get_state",
    ]
    .contains(&name)
}

#[test]
fn the_whole_family_of_the_libc_is_exported() {
    let ours = exports(library());
    let theirs = exports(Path::new(&libc()));
    let missing: Vec<_> = theirs
        .iter()
        .filter(|name| of_the_family(name) && !left_to_the_libc(name) && !ours.contains(*name))
        .collect();
    assert!(
        missing.is_empty(),
        "the libc has {missing:?}, the library has not"
    );
    // The comparison is worth something: it sees what is known to be there.
    for known in [
        "malloc",
        "free",
        "posix_memalign",
        "malloc_usable_size",
        "pvalloc",
        "reallocarray",
    ] {
        assert!(theirs.contains(known) && of_the_family(known), "{known}");
    }
}

#[test]
fn newer_names_are_exported_whatever_the_libc() {
    let ours = exports(library());
    for name in ["free_sized", "free_aligned_sized", "cfree", "aligned_alloc"] {
        assert!(ours.contains(name), "{name}");
    }
}

/// All replaceable forms of operator new and delete.
fn operators() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for kind in ["nw", "na"] {
        for align in ["", "St11align_val_t"] {
            for nothrow in ["", "RKSt9nothrow_t"] {
                names.insert(format!("_Z{kind}m{align}{nothrow}"));
            }
        }
    }
    for kind in ["dl", "da"] {
        for rest in ["", "m", "RKSt9nothrow_t"] {
            for align in ["", "St11align_val_t"] {
                let (size, nothrow) = if rest == "m" { ("m", "") } else { ("", rest) };
                names.insert(format!("_Z{kind}Pv{size}{align}{nothrow}"));
            }
        }
    }
    names
}

#[test]
fn all_operators_of_cpp_are_exported() {
    let ours = exports(library());
    let missing: Vec<_> = operators()
        .into_iter()
        .filter(|n| !ours.contains(n))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn nothing_else_of_the_program_is_replaced() {
    let libc = exports(Path::new(&libc()));
    let operators = operators();
    // Watched to follow threads, processes and libraries; each forwards.
    let watched = [
        "pthread_create",
        "pthread_setname_np",
        "prctl",
        "dlopen",
        "dlmopen",
        "dlclose",
        "fork",
        "vfork",
        "_exit",
        "_Exit",
        "quick_exit",
    ];
    let surprising: Vec<_> = exports(library())
        .into_iter()
        .filter(|n| !operators.contains(n) && !watched.contains(&n.as_str()))
        .filter(|n| !n.starts_with("homefree_") && (!of_the_family(n) || left_to_the_libc(n)))
        .collect();
    let of_libc: Vec<_> = surprising.iter().filter(|n| libc.contains(*n)).collect();
    assert!(of_libc.is_empty(), "replaces {of_libc:?}");
    assert!(surprising.is_empty(), "exports {surprising:?}");
}

#[test]
fn the_library_brings_no_unwinder_and_no_cpp_runtime() {
    let ran = Run::new("readelf")
        .args(["-d", "-W"])
        .arg(library())
        .run()
        .ended_well();
    let out = ran.out();
    let needed: Vec<_> = out.lines().filter(|l| l.contains("(NEEDED)")).collect();
    for line in &needed {
        let good = ["libc.so.6", "ld-linux", "libdl.so.2", "libpthread.so.0"];
        assert!(good.iter().any(|g| line.contains(g)), "needs {line}");
    }
    // Thread-locals as an initial-exec library has them: no call into the loader on the hot path.
    let relocations = Run::new("readelf")
        .args(["-r", "-W"])
        .arg(library())
        .run()
        .ended_well()
        .out();
    assert!(
        !relocations.contains("__tls_get_addr"),
        "calls __tls_get_addr"
    );
}
