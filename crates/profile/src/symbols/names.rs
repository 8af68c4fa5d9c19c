//! Names as people wrote them.

use crate::records::text;

/// Demangles by what the name looks like (Rust v0 and legacy, C++), and takes off what compilers
/// append to copies of C functions.
pub(crate) fn demangle(raw: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(raw) {
        return text(format!("{rust:#}").as_bytes());
    }
    if raw.starts_with("_Z") || raw.starts_with("__Z") {
        let options = cpp_demangle::DemangleOptions::new().no_return_type();
        let limits = cpp_demangle::ParseOptions::default().recursion_limit(160);
        let symbol = cpp_demangle::Symbol::new_with_options(raw, &limits).ok();
        let name = symbol.and_then(|s| s.demangle_with_options(&options).ok());
        if let Some(name) = name {
            return text(without_empty_packs(name).as_bytes());
        }
    }
    // Symbol versions of the dynamic table, copies made by the optimizer.
    let plain = raw.split("@@").next().unwrap_or(raw);
    text(plain.as_bytes())
}

/// `make_unique<T>()` rather than `make_unique<T, >(&&)`, as an empty parameter pack comes out.
fn without_empty_packs(name: String) -> String {
    if !name.contains(", >") {
        return name;
    }
    let name = name.replace(", >", ">").replace("(&&)", "()");
    name.replace(", &&)", ")")
}

/// Name of a role from the name of its start function.
pub(crate) fn role(function: &str) -> String {
    if let Some(body) = function.strip_prefix("std::thread::_State_impl<") {
        // libstdc++: …<std::thread::_Invoker<std::tuple<X, …> > >::_M_run()
        let inner = body.split_once("std::tuple<").map(|(_, inner)| inner);
        if let Some(called) = inner.map(first_argument).filter(|x| !x.is_empty()) {
            return called_name(called);
        }
    }
    // Every thread that the standard library starts begins here: it tells nothing but that.
    let of_library = function.contains("std::sys::") && function.ends_with("thread_start");
    if of_library || function.starts_with("execute_native_thread_routine") {
        return "std::thread".to_owned();
    }
    called_name(function)
}

/// Up to the first `,` or closing bracket that is not inside brackets.
fn first_argument(list: &str) -> &str {
    let mut depth = 0;
    for (at, c) in list.char_indices() {
        match c {
            '<' | '(' | '{' | '[' => depth += 1,
            '>' | ')' | '}' | ']' if depth == 0 => return list[..at].trim(),
            '>' | ')' | '}' | ']' => depth -= 1,
            ',' if depth == 0 => return list[..at].trim(),
            _ => {}
        }
    }
    list.trim()
}

/// A callable without its parameters: `worker(int)` → `worker`, and a closure is named by the function
/// it stands in: `main::{lambda(int)#1}::_FUN(void*)` → `main::{lambda#1}`.
fn called_name(function: &str) -> String {
    if function.contains("(*)") {
        return function.to_owned();
    }
    // A member function, only known by its type: the class.
    if let Some((head, _)) = function.split_once("::*)") {
        return head.rsplit('(').next().unwrap_or(head).to_owned();
    }
    let function = function.replace("(anonymous namespace)::", "");
    let mut out = String::new();
    let mut depth = 0;
    for c in function.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    let out = out.trim().trim_end_matches(" const").trim();
    // The function that stands for a closure without captures; the clone that GCC made of a function.
    let out = out.trim_end_matches("::_FUN");
    let out = out.split(" [clone").next().unwrap_or(out).trim_end();
    if out.is_empty() {
        function
    } else {
        out.to_owned()
    }
}

/// Template arguments of the C++ library that everybody leaves at their default.
const DEFAULT_ARGUMENTS: &[&str] = &[
    ", std::allocator<",
    ", std::char_traits<",
    ", std::default_delete<",
    ", std::less<",
    ", std::hash<",
    ", std::equal_to<",
];

/// Shortens what only repeats itself in C++ names: default arguments, ABI marks, the string type.
pub(crate) fn shorten(function: &str) -> String {
    if function.contains("{{closure}}") {
        return function.replace("{{closure}}", "{closure}");
    }
    if !function.contains("std::") && !function.contains("[abi:") {
        return function.to_owned();
    }
    let mut out = function
        .replace(" >", ">")
        .replace("std::__cxx11::", "std::");
    while let Some(at) = out.find("[abi:") {
        let end = out[at..].find(']').map_or(out.len(), |len| at + len + 1);
        out.replace_range(at..end, "");
    }
    for default in DEFAULT_ARGUMENTS {
        while let Some(at) = out.find(default) {
            let inside = at + default.len();
            // Past the closing bracket of the argument itself.
            let end = inside + end_of_arguments(&out[inside..]);
            out.replace_range(at..(end + 1).min(out.len()), "");
        }
    }
    for (long, short) in [
        ("std::basic_string<char>", "std::string"),
        ("std::basic_string_view<char>", "std::string_view"),
    ] {
        out = out.replace(long, short);
    }
    out
}

/// Where the bracket closes that was opened just before `list`.
fn end_of_arguments(list: &str) -> usize {
    let mut depth = 0;
    let end = list.char_indices().find(|(_, c)| {
        match c {
            '<' | '(' | '{' | '[' => depth += 1,
            '>' | ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
        depth < 0
    });
    end.map_or(list.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled_by_language() {
        for (raw, name) in [
            (
                "_ZN4core3ptr13drop_in_place17h0123456789abcdefE",
                "core::ptr::drop_in_place",
            ),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backERKi",
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
            ),
            ("_Znwm", "operator new(unsigned long)"),
            (
                "_ZSt11make_uniqueI7RequestJEENSt8__detail9_MakeUniqIT_E15__single_objectEDpOT0_",
                "std::make_unique<Request>()",
            ),
            ("malloc@@GLIBC_2.2.5", "malloc"),
            ("main", "main"),
            ("_Zbroken", "_Zbroken"),
        ] {
            assert_eq!(demangle(raw), name);
        }
    }

    #[test]
    fn default_arguments_go() {
        for (long, short) in [
            (
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
                "std::vector<int>::push_back(int const&)",
            ),
            (
                "Queue<std::unique_ptr<R, std::default_delete<R> > >::take()",
                "Queue<std::unique_ptr<R>>::take()",
            ),
            (
                "f[abi:cxx11](std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)",
                "f(std::string const&)",
            ),
            (
                "std::map<int, std::vector<int, std::allocator<int> >, std::less<int>, std::allocator<std::pair<int const, int> > >::clear()",
                "std::map<int, std::vector<int>>::clear()",
            ),
            ("std::vector<int, std::allocator<int", "std::vector<int"),
            ("core::ptr::drop_in_place", "core::ptr::drop_in_place"),
        ] {
            assert_eq!(shorten(long), short);
        }
    }

    #[test]
    fn start_functions_become_role_names() {
        for (function, name) in [
            ("worker_main(void*)", "worker_main"),
            (
                "std::thread::_State_impl<std::thread::_Invoker<std::tuple<main::{lambda()#1}> > >::_M_run()",
                "main::{lambda#1}",
            ),
            (
                "std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (*)(int), int> > >::_M_run()",
                "void (*)(int)",
            ),
            (
                "std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (Server::*)(), Server*> > >::_M_run()",
                "Server",
            ),
            ("consume", "consume"),
            (
                "<std::sys::thread::unix::Thread>::new::thread_start",
                "std::thread",
            ),
            (
                "std::sys::pal::unix::thread::Thread::new::thread_start",
                "std::thread",
            ),
            (
                "node::(anonymous namespace)::PlatformWorkerThread(void*)",
                "node::PlatformWorkerThread",
            ),
            (
                "node::Worker::Start(int const&)::{lambda(void*)#1}::_FUN(void*)",
                "node::Worker::Start::{lambda#1}",
            ),
        ] {
            assert_eq!(role(function), name);
        }
    }
}
