//! A library with a ledger, opened with `dlopen`: it counts right in every thread, settles when threads end, never
//! fails to open for its thread-local storage, and can be closed while threads live that it has seen.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod artifacts;

use std::ffi::{CStr, CString};
use std::mem::transmute;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

type Address = *mut libc::c_void;
type Number = extern "C" fn() -> u64;

/// The opened library.
#[derive(Clone, Copy)]
struct Plugin {
    handle: Address,
    alloc: extern "C" fn(usize) -> *mut u8,
    free: unsafe extern "C" fn(*mut u8, usize),
    exact: Number,
    cheap: Number,
    error: Number,
    blocks: Number,
    constant: extern "C" fn() -> bool,
}

// SAFETY: a handle and functions that any thread may call.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

impl Plugin {
    fn open(path: &Path) -> Self {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a path; the library's initialisers are the standard ones.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        // SAFETY: the loader's own string.
        assert!(!handle.is_null(), "{:?}", unsafe {
            CStr::from_ptr(libc::dlerror())
        });
        let find = |name: &CStr| {
            // SAFETY: an open library and a name.
            let f = unsafe { libc::dlsym(handle, name.as_ptr()) };
            assert!(!f.is_null(), "{name:?}");
            f
        };
        // SAFETY: the types of the functions of these names in `examples/plugin.rs`.
        unsafe {
            Self {
                handle,
                alloc: transmute::<Address, extern "C" fn(usize) -> *mut u8>(find(c"plugin_alloc")),
                free: transmute::<Address, unsafe extern "C" fn(*mut u8, usize)>(find(
                    c"plugin_free",
                )),
                exact: transmute::<Address, Number>(find(c"plugin_exact")),
                cheap: transmute::<Address, Number>(find(c"plugin_cheap")),
                error: transmute::<Address, Number>(find(c"plugin_error")),
                blocks: transmute::<Address, Number>(find(c"plugin_blocks")),
                constant: transmute::<Address, extern "C" fn() -> bool>(find(c"plugin_constant")),
            }
        }
    }

    fn close(self) {
        // SAFETY: open, and none of its functions is called afterwards.
        assert_eq!(unsafe { libc::dlclose(self.handle) }, 0);
    }

    fn alloc(&self, size: usize) -> usize {
        (self.alloc)(size) as usize
    }

    fn free(&self, block: usize, size: usize) {
        // SAFETY: a block of ours.
        unsafe { (self.free)(block as *mut u8, size) };
    }
}

/// A thread that the standard library knows nothing of, joined.
fn raw_thread<F: FnMut()>(mut f: F) {
    extern "C" fn body<F: FnMut()>(f: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: as passed below, alive until the join.
        unsafe { (*f.cast::<F>())() };
        std::ptr::null_mut()
    }
    let mut id = 0;
    // SAFETY: plain calls; `f` outlives the thread.
    unsafe {
        let made = libc::pthread_create(&mut id, std::ptr::null(), body::<F>, (&raw mut f).cast());
        assert_eq!(made, 0);
        assert_eq!(libc::pthread_join(id, std::ptr::null_mut()), 0);
    }
}

/// Below a thread's margin: unsettled until its end.
const SOME: usize = 100 << 10;

fn counts_right_in_every_thread(plugin: &Plugin) {
    // This thread gets its account.
    let before = (plugin.cheap)();
    let (error, blocks) = ((plugin.error)(), (plugin.blocks)());
    let mut block = 0;
    raw_thread(|| {
        // A thread's first few events are counted at once. Now it has an account, and drifts.
        for _ in 0..20 {
            plugin.free(plugin.alloc(1), 1);
        }
        block = plugin.alloc(SOME);
    });
    // Its end was told: the cheap reading knows, and its margin is gone.
    assert_eq!((plugin.cheap)() - before, SOME as u64);
    assert_eq!((plugin.error)(), error);
    assert_eq!((plugin.blocks)() - blocks, 1);
    // The first act of this one is a free.
    raw_thread(|| plugin.free(block, SOME));
    assert_eq!((plugin.cheap)(), before);
    assert_eq!((plugin.exact)(), before);

    thread::scope(|scope| {
        for n in 0..8usize {
            scope.spawn(move || {
                for k in 1..5000usize {
                    let size = 1 + (k * 7919 + n) % 4000;
                    plugin.free(plugin.alloc(size), size);
                }
            });
        }
    });
    assert_eq!((plugin.exact)(), before);
    assert_eq!((plugin.cheap)(), before);
    assert_eq!((plugin.blocks)(), blocks);
}

/// The library goes while a thread that it has counted goes on; the thread's end must find nothing of it.
fn closes_under_living_threads(path: &Path) {
    for _ in 0..50 {
        let plugin = Plugin::open(path);
        let (say, hear) = mpsc::channel();
        let (end, wait) = mpsc::channel::<()>();
        let other = thread::spawn(move || {
            plugin.free(plugin.alloc(SOME), SOME);
            say.send(()).unwrap();
            wait.recv().unwrap();
        });
        hear.recv().unwrap();
        plugin.close();
        end.send(()).unwrap();
        other.join().unwrap();
        // A fork finds nothing of it either.
        // SAFETY: the child only ends.
        match unsafe { libc::fork() } {
            // SAFETY: plain call.
            0 => unsafe { libc::_exit(0) },
            child => {
                let mut status = 1;
                // SAFETY: plain call.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert_eq!(status, 0);
            }
        }
    }
}

/// No pthread key is left, so no thread's end can be told: all is counted at once instead.
fn counts_without_a_key(path: &Path) {
    let mut keys = Vec::new();
    loop {
        let mut key = 0;
        // SAFETY: plain call.
        if unsafe { libc::pthread_key_create(&mut key, None) } != 0 {
            break;
        }
        keys.push(key);
    }
    let plugin = Plugin::open(path);
    counts_right_in_every_thread(&plugin);
    assert_eq!((plugin.error)(), 0, "nobody has a margin");
    plugin.close();
    for key in keys {
        // SAFETY: made above.
        assert_eq!(unsafe { libc::pthread_key_delete(key) }, 0);
    }
}

#[test]
fn a_library_counts_wherever_its_counters_lie() {
    let short = artifacts::artifact("plugin", "libplugin.so", "");
    let long = artifacts::artifact("plugin", "libplugin.so", "--cfg plugin_with_much_tls");
    let plugin = Plugin::open(&short);
    let other = Plugin::open(&long);
    assert!((plugin.constant)(), "there is room for a small library");
    assert!(
        !(other.constant)(),
        "and none for a large one, which works all the same"
    );
    for plugin in [&plugin, &other] {
        counts_right_in_every_thread(plugin);
    }
    // Each has its own ledger.
    let (one, two) = ((plugin.exact)(), (other.exact)());
    let block = plugin.alloc(SOME);
    assert_eq!(
        ((plugin.exact)() - one, (other.exact)() - two),
        (SOME as u64, 0)
    );
    plugin.free(block, SOME);
    let folder = tempfile::tempdir().unwrap();
    let third = folder.path().join("libthird.so");
    std::fs::copy(&short, &third).unwrap();
    counts_without_a_key(&third);
    // Only now: the loader does not get the room of closed libraries back.
    many_libraries_open_and_count(&short);
    closes_under_living_threads(&short);
    closes_under_living_threads(&long);
}

/// 150 libraries, far more than the loader's static surplus holds, open and count.
fn many_libraries_open_and_count(path: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let plugins: Vec<Plugin> = (0..150)
        .map(|n| {
            // Another file is another library to the loader.
            let copy = folder.path().join(format!("libplugin{n}.so"));
            std::fs::copy(path, &copy).unwrap();
            Plugin::open(&copy)
        })
        .collect();
    assert!(plugins.iter().any(|plugin| !(plugin.constant)()));
    for (n, plugin) in plugins.iter().enumerate() {
        let before = (plugin.exact)();
        let block = plugin.alloc(n + 1);
        assert_eq!((plugin.exact)() - before, n as u64 + 1);
        raw_thread(|| plugin.free(block, n + 1));
        assert_eq!((plugin.cheap)(), before);
    }
}
