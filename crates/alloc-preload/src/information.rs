//! What malloc tells and takes advice on.

use core::ffi::c_int;
use core::fmt::Write;
use heart::{Statistics, statistics};

/// See the C library's function of this name: 1 if memory went back to the system.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_: usize) -> c_int {
    c_int::from(heart::trim_as::<crate::Here>())
}

/// See the C library's function of this name. Advice on glibc's ways is heard and not followed.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(_: c_int, _: c_int) -> c_int {
    1
}

fn mallinfo2_of(s: &Statistics) -> libc::mallinfo2 {
    let arena = s.mapped - s.huge.1;
    libc::mallinfo2 {
        arena,
        ordblks: 1,
        smblks: 0,
        hblks: s.huge.0,
        hblkhd: s.huge.1,
        usmblks: 0,
        fsmblks: 0,
        uordblks: s.live - s.huge.1.min(s.live),
        fordblks: arena.saturating_sub(s.live - s.huge.1.min(s.live)),
        keepcost: s.retained,
    }
}

/// See the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> libc::mallinfo2 {
    mallinfo2_of(&statistics())
}

/// See the C library's function of this name. What does not fit an `int` wraps, as glibc's does.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> libc::mallinfo {
    let wide = mallinfo2();
    libc::mallinfo {
        arena: wide.arena as c_int,
        ordblks: wide.ordblks as c_int,
        smblks: 0,
        hblks: wide.hblks as c_int,
        hblkhd: wide.hblkhd as c_int,
        usmblks: 0,
        fsmblks: 0,
        uordblks: wide.uordblks as c_int,
        fordblks: wide.fordblks as c_int,
        keepcost: wide.keepcost as c_int,
    }
}

/// Text on its way to a descriptor, in a buffer of its own.
struct Out {
    text: [u8; 1024],
    len: usize,
}

impl Out {
    fn new() -> Self {
        Self {
            text: [0; 1024],
            len: 0,
        }
    }

    fn flush(&mut self) {
        let mut done = 0;
        while done < self.len {
            let rest = &self.text[done..self.len];
            // SAFETY: the kernel reads the slice. `errno` is put back by the caller.
            let n = unsafe { libc::write(2, rest.as_ptr().cast(), rest.len()) };
            if n <= 0 {
                break;
            }
            done += n as usize;
        }
        self.len = 0;
    }
}

impl Write for Out {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        for &b in s.as_bytes() {
            if self.len == self.text.len() {
                self.flush();
            }
            self.text[self.len] = b;
            self.len += 1;
        }
        Ok(())
    }
}

/// See the C library's function of this name: totals and classes, to stderr.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    // SAFETY: the calling thread's errno.
    let errno = unsafe { *libc::__errno_location() };
    let mut out = Out::new();
    let _ = write!(out, "{}", statistics());
    out.flush();
    crate::set_errno(errno);
}

/// See the C library's function of this name.
///
/// # Safety
/// `to` is an open stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, to: *mut libc::FILE) -> c_int {
    if options != 0 {
        return libc::EINVAL;
    }
    let s = statistics();
    let mut line = Out::new();
    let mut put = |text: core::fmt::Arguments<'_>| {
        line.len = 0;
        // Lines are far shorter than the buffer; the last place stays for the NUL.
        let _ = line.write_fmt(text);
        line.text[line.len.min(1023)] = 0;
        // SAFETY: a NUL-terminated line, and the caller's stream.
        unsafe { libc::fputs(line.text.as_ptr().cast(), to) };
    };
    put(format_args!("<malloc version=\"homefree-1\">\n"));
    put(format_args!(
        "<total type=\"live\" size=\"{}\"/>\n<total type=\"cached\" size=\"{}\"/>\n",
        s.live, s.cached
    ));
    put(format_args!(
        "<total type=\"retained\" size=\"{}\"/>\n<total type=\"mmap\" count=\"{}\" size=\"{}\"/>\n",
        s.retained, s.huge.0, s.huge.1
    ));
    put(format_args!(
        "<system type=\"current\" size=\"{}\"/>\n<system type=\"resident\" size=\"{}\"/>\n",
        s.mapped, s.resident
    ));
    for c in s.classes.iter().filter(|c| c.pages > 0) {
        put(format_args!(
            "<size class=\"{}\" pages=\"{}\" live=\"{}\"/>\n",
            c.size, c.pages, c.live
        ));
    }
    put(format_args!("</malloc>\n"));
    0
}

/// At the process's orderly end: the same as `malloc_stats`, where asked for.
extern "C" fn end() {
    if homefree_thread::environment::is_on(b"HOMEFREE_STATS") {
        malloc_stats();
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;
