//! The table behind the choice of a site: which functions are an allocator's, which a container's.

/// What a function is to the reader of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The program's own: a site.
    Own,
    /// The program's own, but a destructor: who destroys is more telling, and of several the outermost.
    Destructor,
    /// A container's, a smart pointer's, the standard library's: the caller is more telling.
    Container,
    /// An allocator's: never a site while there is anything else.
    Allocator,
    /// What starts and ends programs and threads, and the recorder: never a site.
    Never,
}

/// How a rule's text meets a name.
pub(crate) enum Rule {
    /// The whole name, without parameters.
    Is(&'static str),
    /// Its beginning.
    Starts(&'static str),
    /// Any part.
    Has(&'static str),
}

use Kind::{Allocator, Container, Never};
use Rule::{Has, Is, Starts};

/// By demangled function name, without what compilers append (`.part.0`). First match wins.
pub(crate) const FUNCTIONS: &[(Kind, Rule)] = &[
    // What starts and ends programs and threads; static programs have it in a module of their own.
    (Never, Is("_start")),
    (Never, Starts("_dl_start")),
    (Never, Is("_dl_init")),
    (Never, Is("_dl_fini")),
    (Never, Is("_dl_call_fini")),
    (Never, Starts("__libc_start_main")),
    (Never, Starts("__libc_start_call_main")),
    (Never, Starts("__libc_csu_init")),
    (Never, Is("call_init")),
    (Never, Is("start_thread")),
    (Never, Is("clone")),
    (Never, Is("clone3")),
    (Never, Starts("__clone")),
    (Never, Is("exit")),
    (Never, Starts("__run_exit_handlers")),
    (Never, Is("__cxa_finalize")),
    (Never, Is("__do_global_dtors_aux")),
    // The recorder.
    (Never, Starts("homefree::")),
    (Never, Starts("homefree_record::")),
    (Never, Starts("homefree_thread::")),
    // C: the libc's family and the wrappers that programs put around it.
    (Allocator, Is("malloc")),
    (Allocator, Is("calloc")),
    (Allocator, Is("realloc")),
    (Allocator, Is("reallocarray")),
    (Allocator, Is("memalign")),
    (Allocator, Is("aligned_alloc")),
    (Allocator, Is("posix_memalign")),
    (Allocator, Is("valloc")),
    (Allocator, Is("pvalloc")),
    (Allocator, Is("free")),
    (Allocator, Is("cfree")),
    (Allocator, Is("free_sized")),
    (Allocator, Is("free_aligned_sized")),
    (Allocator, Starts("__libc_malloc")),
    (Allocator, Starts("__libc_calloc")),
    (Allocator, Starts("__libc_realloc")),
    (Allocator, Starts("__libc_free")),
    (Allocator, Starts("__libc_memalign")),
    (Allocator, Starts("__interceptor_")),
    (Allocator, Starts("je_")),
    (Allocator, Starts("tc_")),
    (Allocator, Starts("mi_")),
    (Allocator, Starts("_rjem_")),
    (Allocator, Starts("xmalloc")),
    (Allocator, Starts("xcalloc")),
    (Allocator, Starts("xrealloc")),
    (Allocator, Starts("xzalloc")),
    (Allocator, Is("xfree")),
    (Allocator, Is("do_xmalloc")),
    (Allocator, Is("memory_limit_check")),
    (Allocator, Starts("zmalloc")),
    (Allocator, Starts("zcalloc")),
    (Allocator, Starts("zrealloc")),
    (Allocator, Starts("ztry")),
    (Allocator, Starts("zfree")),
    (Allocator, Starts("g_malloc")),
    (Allocator, Starts("g_try_malloc")),
    (Allocator, Starts("g_realloc")),
    (Allocator, Is("g_free")),
    (Allocator, Starts("g_slice_")),
    (Allocator, Starts("sqlite3Malloc")),
    (Allocator, Starts("sqlite3MemMalloc")),
    (Allocator, Starts("sqlite3MemFree")),
    (Allocator, Starts("sqlite3MemRealloc")),
    (Allocator, Starts("sqlite3Realloc")),
    (Allocator, Starts("sqlite3DbMalloc")),
    (Allocator, Starts("sqlite3DbFree")),
    (Allocator, Starts("sqlite3DbRealloc")),
    (Allocator, Starts("sqlite3_malloc")),
    (Allocator, Starts("sqlite3_realloc")),
    (Allocator, Is("sqlite3_free")),
    (Allocator, Starts("CRYPTO_malloc")),
    (Allocator, Starts("CRYPTO_zalloc")),
    (Allocator, Starts("CRYPTO_realloc")),
    (Allocator, Starts("CRYPTO_free")),
    (Allocator, Starts("CRYPTO_clear_free")),
    (Allocator, Starts("uv__malloc")),
    (Allocator, Starts("uv__calloc")),
    (Allocator, Starts("uv__realloc")),
    (Allocator, Starts("uv__free")),
    (Allocator, Starts("PyMem_")),
    (Allocator, Starts("_PyMem_")),
    (Allocator, Starts("PyObject_Malloc")),
    (Allocator, Starts("PyObject_Calloc")),
    (Allocator, Starts("PyObject_Realloc")),
    (Allocator, Starts("PyObject_Free")),
    (Allocator, Starts("_PyObject_Malloc")),
    (Allocator, Starts("_PyObject_Calloc")),
    (Allocator, Starts("_PyObject_Realloc")),
    (Allocator, Starts("_PyObject_Free")),
    (Allocator, Starts("_PyObject_GC_")),
    (Allocator, Starts("lzma_alloc")),
    (Allocator, Starts("lzma_free")),
    (Allocator, Is("new_arena")),
    (Container, Starts("xstrdup")),
    (Container, Starts("xstrndup")),
    (Container, Starts("xmemdup")),
    (Container, Starts("g_strdup")),
    (Container, Starts("g_strndup")),
    (Container, Is("strdup")),
    (Container, Is("strndup")),
    (Container, Is("wcsdup")),
    (Container, Is("asprintf")),
    (Container, Is("vasprintf")),
    // C++: operators and allocators …
    (Allocator, Starts("operator new")),
    (Allocator, Starts("operator delete")),
    (Allocator, Has("::operator new")),
    (Allocator, Has("::operator delete")),
    (Allocator, Starts("std::allocator<")),
    (Allocator, Starts("std::allocator_traits<")),
    (Allocator, Starts("std::__new_allocator<")),
    (Allocator, Starts("std::pmr::")),
    (Allocator, Starts("__gnu_cxx::new_allocator<")),
    (Allocator, Starts("__gnu_cxx::__alloc_traits<")),
    (Allocator, Starts("std::__allocate_guarded")),
    (Allocator, Starts("std::__allocated_ptr<")),
    (Allocator, Starts("std::_Vector_base<")),
    (Allocator, Has("::_M_allocate")),
    (Allocator, Has("::_M_deallocate")),
    (Allocator, Has("::_M_get_node")),
    (Allocator, Has("::_M_put_node")),
    (Allocator, Starts("std::__libcpp_allocate")),
    (Allocator, Starts("std::__libcpp_deallocate")),
    (Allocator, Starts("std::__1::allocator<")),
    (Allocator, Starts("v8::base::Malloc")),
    (Allocator, Starts("node::Malloc")),
    (Allocator, Starts("node::UncheckedMalloc")),
    (Allocator, Starts("node::Realloc")),
    (Allocator, Starts("v8::internal::AllocAtLeastWithRetry")),
    (Allocator, Starts("v8::internal::AllocWithRetry")),
    (Allocator, Has("::AllocForZlib")),
    (Allocator, Has("::FreeForZlib")),
    (Allocator, Starts("os::malloc")),
    (Allocator, Starts("os::free")),
    (Allocator, Starts("AllocateHeap")),
    (Allocator, Starts("FreeHeap")),
    // … and Rust's; before `std::`, which is a container's in either language.
    (Allocator, Starts("__rust_")),
    (Allocator, Starts("__rustc::__rust_")),
    (Allocator, Starts("__rdl_")),
    (Allocator, Starts("__rg_")),
    (Allocator, Starts("__rustc::__rdl_")),
    (Allocator, Starts("__rustc::__rg_")),
    (Allocator, Starts("alloc::alloc::")),
    (Allocator, Starts("alloc::raw_vec::")),
    (Allocator, Starts("std::alloc::")),
    (Allocator, Starts("std::sys::alloc::")),
    (Allocator, Has(" as core::alloc::")),
    (Allocator, Has(" as allocator_api2::")),
    (Allocator, Starts("tikv_jemallocator::")),
    (Allocator, Starts("jemallocator::")),
    (Allocator, Starts("mimalloc::")),
    (Allocator, Starts("libc::")),
    (Container, Starts("alloc::")),
    (Container, Starts("core::")),
    (Container, Starts("std::")),
    (Container, Starts("__gnu_cxx::")),
    (Container, Starts("__cxxabiv1::")),
    (Container, Starts("__cxa_")),
    (Container, Starts("_M_")),
    (Container, Has("::_M_")),
    (Container, Starts("boost::shared_ptr<")),
    (Container, Starts("boost::detail::")),
    (Container, Starts("boost::intrusive_ptr<")),
    (Container, Starts("boost::container::")),
    (Container, Starts("boost::checked_delete")),
    (Container, Starts("absl::container_internal::")),
    (Container, Starts("absl::lts_")),
    (Container, Starts("hashbrown::")),
    (Container, Starts("bytes::")),
    (Container, Starts("smallvec::")),
    (Container, Starts("arrayvec::")),
    (Container, Starts("indexmap::")),
    (Container, Starts("triomphe::")),
    (Container, Starts("slab::")),
    (Container, Starts("bumpalo::")),
    (Container, Starts("crossbeam_channel::")),
    (Container, Starts("crossbeam_queue::")),
    (Container, Starts("allocator_api2::")),
];

/// By file name of the module, for code without names: standard libraries and allocators.
pub(crate) const MODULES: &[(Kind, &str)] = &[
    (Allocator, "libhomefree"),
    (Allocator, "libjemalloc"),
    (Allocator, "libtcmalloc"),
    (Allocator, "libmimalloc"),
    (Allocator, "libsnmalloc"),
    (Container, "libc.so"),
    (Container, "libc-2."),
    (Container, "ld-linux"),
    (Container, "ld-2."),
    (Container, "libpthread"),
    (Container, "libstdc++"),
    (Container, "libc++"),
    (Container, "libgcc_s"),
];

/// By source file: where the standard libraries' own code lies, whatever debug information calls it.
pub(crate) const FILES: &[(Kind, &str)] = &[
    (Container, "/include/c++/"),
    (Container, "/libstdc++-v3/"),
    (Never, "/homefree_recorded.rs"),
    (Container, "/library/alloc/src/"),
    (Container, "/library/core/src/"),
    (Container, "/library/std/src/"),
    (Container, "/hashbrown-"),
];

/// What a function is, by its name.
pub(crate) fn of_function(whole: &str) -> Kind {
    // glibc's debug information has its internal aliases: `__GI_exit`.
    let name = subject(whole.strip_prefix("__GI_").unwrap_or(whole));
    let bare = name.split(['.', '(']).next().unwrap_or(name);
    let meets = |rule: &Rule| match *rule {
        Is(text) => bare == text,
        Starts(text) => name.starts_with(text),
        Has(text) => name.contains(text),
    };
    match FUNCTIONS.iter().find(|(_, rule)| meets(rule)) {
        Some((kind, _)) => *kind,
        None if is_destructor(whole) => Kind::Destructor,
        None => Kind::Own,
    }
}

fn is_destructor(name: &str) -> bool {
    name.contains("::~") || name.ends_with(" as core::ops::drop::Drop>::drop")
}

/// What code in a module is, by the module's file name.
pub(crate) fn of_module(file_name: &str) -> Kind {
    let found = MODULES
        .iter()
        .find(|(_, start)| file_name.starts_with(start));
    found.map_or(Kind::Own, |(kind, _)| *kind)
}

/// What code in a source file is.
pub(crate) fn of_file(path: &str) -> Kind {
    let found = FILES.iter().find(|(_, part)| path.contains(part));
    found.map_or(Kind::Own, |(kind, _)| *kind)
}

/// The type a Rust name is about: `<alloc::vec::Vec<T> as Drop>::drop` starts with `alloc::…`.
fn subject(name: &str) -> &str {
    let is_marker = |c| matches!(c, '<' | '&' | '[' | '(' | '*');
    let Some(inner) = name.strip_prefix('<') else {
        return name;
    };
    // `<dyn FnOnce() as …>`, `<&mut T as …>`, `<[T] as …>`
    let inner = inner.trim_start_matches(is_marker);
    let inner = inner.strip_prefix("mut ").unwrap_or(inner);
    inner.strip_prefix("dyn ").unwrap_or(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_apart() {
        for (kind, name) in [
            (Allocator, "malloc"),
            (Allocator, "xmalloc.part.0"),
            (Allocator, "operator new(unsigned long)"),
            (Allocator, "std::allocator<int>::allocate(unsigned long)"),
            (
                Allocator,
                "std::_Vector_base<int, std::allocator<int> >::_M_allocate(unsigned long)",
            ),
            (Allocator, "alloc::alloc::alloc"),
            (
                Allocator,
                "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
            ),
            (
                Never,
                "<homefree::Recorded<A> as core::alloc::global::GlobalAlloc>::alloc",
            ),
            (Allocator, "__rustc::__rust_alloc"),
            (Allocator, "PyMem_RawMalloc"),
            (
                Container,
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
            ),
            (
                Container,
                "std::_Sp_counted_ptr_inplace<T, std::allocator<void>, (__gnu_cxx::_Lock_policy)2>::_M_dispose()",
            ),
            (Container, "std::make_shared<Task, int&>(int&)"),
            (
                Container,
                "std::unique_ptr<Task, std::default_delete<Task> >::~unique_ptr()",
            ),
            (
                Container,
                "<alloc::vec::Vec<u8> as core::clone::Clone>::clone",
            ),
            (Container, "core::ptr::drop_in_place<alloc::vec::Vec<u8>>"),
            (Container, "core::mem::drop"),
            (
                Container,
                "<alloc::sync::Arc<T> as core::ops::drop::Drop>::drop",
            ),
            (
                Container,
                "<&alloc::string::String as core::fmt::Display>::fmt",
            ),
            (Container, "hashbrown::raw::RawTable<T>::reserve_rehash"),
            (
                Container,
                "std::collections::hash::map::HashMap<K, V>::insert",
            ),
            (Container, "bytes::bytes_mut::BytesMut::reserve_inner"),
            (Container, "strdup"),
            (Kind::Own, "main"),
            (Kind::Own, "malloc_stats_printer"),
            (Kind::Own, "freeConnection"),
            (
                Kind::Destructor,
                "<server::Connection as core::ops::drop::Drop>::drop",
            ),
            (Kind::Destructor, "Request::~Request()"),
            (Never, "_start"),
            (Never, "__libc_start_main@@GLIBC_2.34"),
            (Never, "__libc_start_main_impl"),
            (Never, "__libc_start_call_main"),
            (Never, "start_thread"),
            (Never, "clone"),
            (Never, "clone3"),
            (Never, "__clone_internal"),
            (Never, "__run_exit_handlers"),
            (Never, "exit"),
            (Never, "__GI_exit"),
            (Never, "__GI___clone3"),
            (Never, "_dl_fini"),
            (Allocator, "__GI___libc_free"),
            (Never, "call_init.part.0"),
            (Never, "_dl_start_user"),
            (Never, "__libc_csu_init"),
            (Never, "__cxa_finalize"),
            (Never, "__do_global_dtors_aux"),
            (Container, "__cxa_atexit"),
            (Kind::Own, "exit_code"),
            (Kind::Own, "clone_request"),
            (Kind::Own, "Request::Request(int)"),
            (Kind::Own, "server::allocate_buffers"),
            (Kind::Own, "free_list::push(Node*)"),
            (Kind::Own, "Allocator::grow()"),
        ] {
            assert_eq!(of_function(name), kind, "{name}");
        }
    }

    #[test]
    fn modules_and_files_are_told_apart() {
        assert_eq!(of_module("libhomefree.so"), Allocator);
        assert_eq!(of_module("libc.so.6"), Container);
        assert_eq!(of_module("libcurl.so.4"), Kind::Own);
        assert_eq!(of_file("/usr/include/c++/12/bits/stl_vector.h"), Container);
        assert_eq!(
            of_file("/rustc/0123/library/alloc/src/vec/mod.rs"),
            Container
        );
        assert_eq!(of_file("/home/me/src/vec.rs"), Kind::Own);
        assert_eq!(of_file("crates/homefree/src/homefree_recorded.rs"), Never);
    }
}
