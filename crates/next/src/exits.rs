//! The functions that end a process without running destructors.

/// Exports `_exit` and `_Exit`, which do `$last` first and then go on to the next of their names, and defines
/// `find_exits`, which looks those up: to be called at the start, while it is safe to, for `_exit` may be called in a
/// child of `vfork`.
#[macro_export]
macro_rules! exits {
    ($last:expr) => {
        $crate::exits! { $last; _exit EXIT c"_exit"; _Exit EXIT_ISO c"_Exit"; }
    };
    ($last:expr; $($name:ident $next:ident $text:literal;)*) => {
        $(
            static $next: ::core::sync::atomic::AtomicPtr<::core::ffi::c_void> =
                ::core::sync::atomic::AtomicPtr::new(::core::ptr::null_mut());

            /// See the C library's function of this name.
            ///
            /// # Safety
            /// As the C library demands.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(status: ::core::ffi::c_int) -> ! {
                $last;
                // SAFETY: what the variable holds is the next function of this name, or null.
                unsafe { $crate::exit_by(&$next, status) }
            }
        )*

        /// Looks the next functions up.
        fn find_exits() {
            $($next.store($crate::find($text), ::core::sync::atomic::Ordering::Relaxed);)*
        }
    };
}

/// Ends the process by a function, or by the system call where there is none.
///
/// # Safety
/// `next` holds null, or a function such as `_exit`.
pub unsafe fn exit_by(
    next: &core::sync::atomic::AtomicPtr<core::ffi::c_void>,
    status: core::ffi::c_int,
) -> ! {
    let f = next.load(core::sync::atomic::Ordering::Relaxed);
    if !f.is_null() {
        // SAFETY: the caller's promise.
        let f = unsafe {
            core::mem::transmute::<*mut core::ffi::c_void, extern "C" fn(core::ffi::c_int) -> !>(f)
        };
        f(status)
    }
    loop {
        // SAFETY: what that function does.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}
