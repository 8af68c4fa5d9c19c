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

/// What an allocator of the C family exports that gives out or takes back blocks, or looks into one.
fn of_the_family(name: &str) -> bool {
    let stems = [
        "malloc",
        "calloc",
        "realloc",
        "memalign",
        "valloc",
        "aligned_alloc",
        "free",
    ];
    let not_blocks = [
        // They free what their own pairs made, by free.
        "freeaddrinfo",
        "freeifaddrs",
        "freelocale",
        "__freelocale",
        "globfree",
        "globfree64",
        "regfree",
        "wordfree",
        "obstack_free",
        "_obstack_free",
        "fts_free",
        "if_freenameindex",
        "if_freenameindex",
        "xdr_free",
        "svc_freeargs",
        "__free_fdresult",
        "freehostent",
        "freopen",
        "freopen64",
        "frexp",
        "posix_spawn_freeaddrs",
        "__libc_freeres",
        "__rpc_thread_destroy",
        "__obstack_free",
        "obstack_alloc_failed_handler",
        "__res_freeupdrec",
        "clnt_freeres",
        "__libc_dynarray_freeze",
        "__libc_dynarray_at_failure",
        "__libc_alloca_cutoff",
    ];
    stems.iter().any(|stem| name.contains(stem)) && !not_blocks.contains(&name)
}

/// Names of the family that are left to the libc, and why.
fn left_to_the_libc(name: &str) -> bool {
    // The libc's own second names, which the first ones are called by, and its compatibility hooks.
    name.starts_with("__libc_")
        || name.starts_with("__malloc_")
        || name.starts_with("__free_hook")
        || name.starts_with("__realloc_hook")
        || name.starts_with("__memalign_hook")
        // Settings and statistics of the allocator behind; they touch no single block.
        || ["malloc_trim", "malloc_stats", "malloc_info", "malloc_set_state", "malloc_get_state"].contains(&name)
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
