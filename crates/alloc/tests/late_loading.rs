//! A library that carries the allocator can be loaded late, many times over, on any thread, and be unloaded
//! again while threads live that used it.
#![cfg(not(loom))]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "blocks and cells are the test's own; it fails where they are not"
)]

use std::ffi::{CStr, CString, c_void};
use std::path::PathBuf;

/// `examples/plugin.rs` as a library.
fn plugin() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("plugin");
    let mut cargo = std::process::Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--quiet",
        "-p",
        "homefree-alloc",
        "--example",
        "plugin",
    ]);
    cargo
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    cargo
        .arg("--target-dir")
        .arg(&target)
        .env_remove("RUSTFLAGS");
    assert!(
        cargo.status().unwrap().success(),
        "the plugin does not build"
    );
    target.join("debug/examples/libplugin.so")
}

struct Loaded(usize);

impl Loaded {
    fn new(path: &std::path::Path) -> Self {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{:?}", unsafe {
            CStr::from_ptr(libc::dlerror())
        });
        Self(handle.addr())
    }

    fn work(&self, n: u64) -> u64 {
        let f = unsafe { libc::dlsym(self.0 as *mut c_void, c"work".as_ptr()) };
        assert!(!f.is_null());
        let f = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(u64) -> u64>(f) };
        f(n)
    }

    fn unload(self) {
        assert_eq!(unsafe { libc::dlclose(self.0 as *mut c_void) }, 0);
    }
}

#[test]
fn a_library_with_the_allocator_loads_late_and_unloads_while_its_threads_live() {
    let dir = std::env::temp_dir().join(format!("homefree-late-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    // Far more of them than the loader keeps static thread-local room for.
    let plugin = plugin();
    let copies: Vec<Loaded> = (0..40)
        .map(|i| {
            let copy = dir.join(format!("plugin{i}.so"));
            std::fs::copy(&plugin, &copy).unwrap();
            Loaded::new(&copy)
        })
        .collect();
    std::fs::remove_dir_all(&dir).unwrap();
    let (to_thread, from_main) = std::sync::mpsc::channel::<&'static Loaded>();
    let (to_main, from_thread) = std::sync::mpsc::channel();
    let user = std::thread::spawn(move || {
        from_main
            .iter()
            .for_each(|loaded| to_main.send(loaded.work(500)).unwrap());
    });
    for loaded in copies {
        assert!(loaded.work(1000) >= 1000, "its allocator did not serve it");
        let loaded: &'static Loaded = Box::leak(Box::new(loaded));
        to_thread.send(loaded).unwrap();
        assert!(from_thread.recv().unwrap() >= 500);
        Loaded(loaded.0).unload();
    }
    // The thread that used them all ends after they are gone.
    drop(to_thread);
    user.join().unwrap();
}
