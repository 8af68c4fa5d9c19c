//! The table of next functions.

use crate::{Ptr, bootstrap, find};
use core::ffi::{CStr, c_int, c_void};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// What a library says of itself.
pub trait Artifact: 'static {
    /// Its table.
    fn functions() -> &'static Functions;

    /// Calls `resolve`, once, with whatever the library needs around it: events of this thread until it returns
    /// are the loader's.
    fn around(resolve: &mut dyn FnMut());
}

/// A function of the next library, by name.
pub struct Next<F> {
    f: AtomicPtr<c_void>,
    name: &'static CStr,
    kind: PhantomData<F>,
}

// SAFETY: an atomic pointer and a name.
unsafe impl<F> Sync for Next<F> {}

impl<F: Copy> Next<F> {
    const fn new(name: &'static CStr, first: *mut c_void) -> Self {
        Self {
            f: AtomicPtr::new(first),
            name,
            kind: PhantomData,
        }
    }

    /// The function, or what stands in for it.
    #[inline(always)]
    pub fn get(&self) -> F {
        let f = self.f.load(Ordering::Relaxed);
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: `F` is a function pointer type, the stored pointer a function of that type, by
        // construction in `functions!`.
        unsafe { core::mem::transmute_copy(&f) }
    }

    /// Its address.
    pub fn address(&self) -> *mut c_void {
        self.f.load(Ordering::Relaxed)
    }

    fn resolve(&self) {
        let f = find(self.name);
        if !f.is_null() {
            self.f.store(f, Ordering::Relaxed);
        }
    }
}

const NEW: usize = 0;
const DONE: usize = 1;

/// A word of the calling thread's own: its address tells threads apart. (Anything that is on every thread from its
/// beginning would do.)
fn this_thread() -> usize {
    // SAFETY: plain call.
    unsafe { libc::__errno_location() as usize }
}

macro_rules! functions {
    ($($name:ident $text:literal ( $($arg:ident : $type:ty),* ) -> $ret:ty = $absent:expr;)*) => {
        /// The next library's functions.
        pub struct Functions {
            $(
                #[doc = concat!("The next `", stringify!($name), "`.")]
                pub $name: Next<unsafe extern "C" fn($($type),*) -> $ret>,
            )*
            /// Anything but [`NEW`] and [`DONE`]: the thread that resolves.
            state: AtomicUsize,
        }

        impl Functions {
            /// A table that is resolved by the first call of a function, or by [`Functions::prepare`]. Only to be
            /// had as the static that `A` names.
            pub const fn new<A: Artifact>() -> Self {
                Self {
                    $($name: Next::new($text, first::$name::<A> as *mut c_void),)*
                    state: AtomicUsize::new(NEW),
                }
            }

            fn resolve_all<A: Artifact>(&self) {
                $(self.$name.resolve();)*
                $(
                    // Not there: what to do instead.
                    if self.$name.address() == first::$name::<A> as *mut c_void {
                        self.$name.f.store(absent::$name as *mut c_void, Ordering::Relaxed);
                    }
                )*
            }
        }

        /// What stands in the table until it is resolved.
        mod first {
            use super::*;
            $(pub(super) unsafe extern "C" fn $name<A: Artifact>($($arg: $type),*) -> $ret {
                if A::functions().resolve::<A>() {
                    // SAFETY: the caller's own promise, passed on.
                    unsafe { A::functions().$name.get()($($arg),*) }
                } else {
                    #[allow(unused_unsafe)] // one of them writes where the caller says
                    // SAFETY: the caller's own promise, passed on.
                    unsafe { bootstrap::$name($($arg),*) }
                }
            })*
        }

        /// What stands in for a function that no library behind us has.
        mod absent {
            use super::*;
            $(pub(super) unsafe extern "C" fn $name($($arg: $type),*) -> $ret { $absent })*
        }
    };
}

fn no_memory<T>(_: T) -> Ptr {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    core::ptr::null_mut()
}

functions! {
    malloc c"malloc" (size: usize) -> Ptr = no_memory(size);
    free c"free" (p: Ptr) -> () = { let _ = p; };
    calloc c"calloc" (n: usize, size: usize) -> Ptr = no_memory((n, size));
    realloc c"realloc" (p: Ptr, size: usize) -> Ptr = no_memory((p, size));
    memalign c"memalign" (align: usize, size: usize) -> Ptr = no_memory((align, size));
    aligned_alloc c"aligned_alloc" (align: usize, size: usize) -> Ptr = no_memory((align, size));
    valloc c"valloc" (size: usize) -> Ptr = no_memory(size);
    pvalloc c"pvalloc" (size: usize) -> Ptr = no_memory(size);
    posix_memalign c"posix_memalign" (out: *mut Ptr, align: usize, size: usize) -> c_int
        = { let _ = (out, align, size); libc::ENOMEM };
    malloc_usable_size c"malloc_usable_size" (p: Ptr) -> usize = { let _ = p; 0 };
}

impl Functions {
    /// Resolves the table. False where this very thread is at it already: the request comes from inside the
    /// loader.
    #[cold]
    fn resolve<A: Artifact>(&'static self) -> bool {
        let me = this_thread();
        loop {
            match self
                .state
                .compare_exchange(NEW, me, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    A::around(&mut || self.resolve_all::<A>());
                    self.state.store(DONE, Ordering::Release);
                    return true;
                }
                Err(DONE) => return true,
                Err(owner) if owner == me => return false,
                Err(_) => homefree_thread::sys::sleep(50_000),
            }
        }
    }

    /// Resolves the table now.
    pub fn prepare<A: Artifact>(&'static self) {
        if !self.is_resolved() {
            self.resolve::<A>();
        }
    }

    /// Whether the table holds the next library's functions.
    pub fn is_resolved(&self) -> bool {
        self.state.load(Ordering::Acquire) == DONE
    }
}
