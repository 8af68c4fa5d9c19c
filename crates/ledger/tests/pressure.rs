//! Figures of the cgroup, of pressure stall information and of the process: found, read, and absent with a reason.

mod fixtures;

use fixtures::{ANON, FILE, LISTED, Root, SHMEM, SLAB, STAT, psi, stat};
use homefree_ledger::pressure::{Absent, Cgroup, PsiFile};
use homefree_ledger::{
    Accounted, lazy_free_bytes, lazy_free_bytes_in, process_memory, process_memory_in,
};
use std::alloc::System;

#[global_allocator]
static A: Accounted<System> = Accounted::new(System);

const MIB: u64 = 1 << 20;

fn absent(root: &Root) -> Absent {
    Cgroup::of_process_in(root.path()).unwrap_err()
}

#[test]
fn a_container_finds_its_cgroup() {
    let root = Root::container();
    let cgroup = Cgroup::of_process_in(root.path()).unwrap();
    assert_eq!(cgroup.directory(), root.join("sys/fs/cgroup"));
    let memory = cgroup.read().unwrap();
    let own = memory.own;
    assert_eq!((own.anon, own.file, own.shmem), (ANON, FILE, SHMEM));
    assert_eq!(own.slab_reclaimable, SLAB);
    assert_eq!(own.inactive_file + own.active_file, LISTED);
    assert_eq!(own.file_mapped, 45_088_768);
    assert_eq!(memory.limit, Some(1 << 30));
    assert_eq!(memory.tightest.unwrap().level, 0);
}

/// `memory.current` is 99.9% of the limit, for page cache (datafusion-comet#5993, OmniRoute#12521).
#[test]
fn page_cache_is_not_taken_for_memory_that_is_needed() {
    let root = Root::container();
    let own = Cgroup::of_process_in(root.path())
        .unwrap()
        .read()
        .unwrap()
        .own;
    let limit = (1u64 << 30) as f64;
    assert!(own.current as f64 > 0.99 * limit);
    assert!((own.anon as f64) < 0.56 * limit);
    // Shared memory is in `file` and can not be dropped; neither can what is not on the lists.
    assert_eq!(own.reclaimable_cache(), FILE - SHMEM);
    assert_eq!(own.working(), own.current - (FILE - SHMEM) - SLAB);
    let mut locked = own;
    locked.inactive_file -= 100 * MIB;
    assert_eq!(locked.working(), own.working() + 100 * MIB);
    let mut more = own;
    more.active_file += 100 * MIB;
    assert_eq!(more.working(), own.working(), "no more than there is");
    // The kernel's figures are not of one moment.
    locked.current = 1;
    assert_eq!(locked.working(), 0);
}

#[test]
fn the_limit_is_the_smallest_on_the_way_up() {
    let root = Root::new();
    root.put("proc/self/cgroup", "0::/system.slice/app.service\n");
    root.mount("/", "/sys/fs/cgroup");
    // The root of the hierarchy has neither limits nor an account.
    root.put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    root.cgroup(
        "system.slice",
        900 * MIB,
        &stat(800 * MIB, 90 * MIB),
        "1073741824",
        "943718400",
    );
    root.cgroup(
        "system.slice/app.service",
        300 * MIB,
        &stat(100 * MIB, 180 * MIB),
        "2147483648",
        "max",
    );
    let cgroup = Cgroup::of_process_in(root.path()).unwrap();
    assert_eq!(
        cgroup.directory(),
        root.join("sys/fs/cgroup/system.slice/app.service")
    );
    let memory = cgroup.read().unwrap();
    assert_eq!(memory.own.anon, 100 * MIB);
    assert_eq!(memory.limit, Some(900 * MIB), "memory.high counts too");
    let tightest = memory.tightest.unwrap();
    assert_eq!((tightest.level, tightest.limit), (1, 900 * MIB));
    assert_eq!(
        tightest.figures.anon,
        800 * MIB,
        "its siblings' memory counts against it"
    );

    // The smallest limit is not always the one that is hit first.
    root.cgroup(
        "system.slice/app.service",
        300 * MIB,
        &stat(100 * MIB, 180 * MIB),
        "838860800",
        "max",
    );
    let memory = cgroup.read().unwrap();
    assert_eq!(memory.limit, Some(800 * MIB));
    assert_eq!(memory.tightest.unwrap().level, 1);

    for path in ["system.slice", "system.slice/app.service"] {
        root.cgroup(path, MIB, STAT, "max", "max");
    }
    let memory = cgroup.read().unwrap();
    assert_eq!((memory.limit, memory.tightest), (None, None));
}

#[test]
fn a_container_in_the_hosts_namespace_is_found() {
    let root = Root::new();
    root.put("proc/self/cgroup", "0::/docker/0a1b/init\n");
    root.mount("/docker/0a1b", "/sys/fs/cgroup");
    root.cgroup("init", MIB, STAT, "1073741824", "max");
    root.cgroup("", MIB, STAT, "max", "max");
    let cgroup = Cgroup::of_process_in(root.path()).unwrap();
    assert_eq!(cgroup.directory(), root.join("sys/fs/cgroup/init"));
    // A name that only begins alike is another cgroup.
    root.put("proc/self/cgroup", "0::/docker/0a1bc\n");
    assert_eq!(absent(&root), Absent::OutOfSight);
}

#[test]
fn odd_mount_points_are_found() {
    let root = Root::new();
    root.put("proc/self/cgroup", "0::/a b\n");
    root.mount("/", "/mnt/c\\040group\\134s");
    let at = "mnt/c group\\s/a b";
    for (file, text) in [("memory.current", "4096\n"), ("memory.stat", STAT)] {
        root.put(&format!("{at}/{file}"), text);
    }
    let memory = Cgroup::of_process_in(root.path()).unwrap().read().unwrap();
    assert_eq!((memory.own.current, memory.limit), (4096, None));
}

#[test]
fn cgroup_v1_is_absent_and_says_so() {
    let root = Root::container();
    // A hybrid host: v2 for systemd, v1 for memory.
    root.put(
        "proc/self/cgroup",
        "4:memory:/app\n1:cpu,cpuacct:/app\n0::/app\n",
    );
    assert_eq!(absent(&root), Absent::V1);
    assert!(absent(&root).to_string().contains("cgroup v1"));
    // Other controllers on v1 do no harm.
    root.put("proc/self/cgroup", "1:name=memory-like:/\n3:cpu:/\n0::/\n");
    assert!(Cgroup::of_process_in(root.path()).is_ok());
    root.put("proc/self/cgroup", "1:cpu:/\n");
    assert_eq!(absent(&root), Absent::NotMounted);
}

#[test]
fn what_namespaces_hide_is_absent() {
    let root = Root::container();
    root.mount("/..", "/sys/fs/cgroup");
    assert_eq!(absent(&root), Absent::OutOfSight);
    root.mount("/", "/sys/fs/cgroup");
    root.put("proc/self/cgroup", "0::/../other\n");
    root.cgroup("../other", MIB, STAT, "max", "max");
    assert_eq!(absent(&root), Absent::OutOfSight);
    root.put("proc/self/cgroup", "0::/\n");
    root.put(
        "proc/self/mountinfo",
        "30 28 254:1 / / rw shared:1 - ext4 /dev/vda1 rw\n",
    );
    assert_eq!(absent(&root), Absent::NotMounted);
}

#[test]
fn no_account_is_absent_for_the_right_reason() {
    let root = Root::container();
    root.remove("sys/fs/cgroup/memory.current");
    assert_eq!(absent(&root), Absent::NotEnabled);
    root.remove("sys/fs/cgroup/cgroup.type");
    assert_eq!(absent(&root), Absent::Root);
    root.remove("sys/fs/cgroup/cgroup.controllers");
    assert_eq!(absent(&root), Absent::OutOfSight);
    let nothing = Root::new();
    assert!(matches!(
        absent(&nothing),
        Absent::Unreadable {
            errno: libc::ENOENT,
            ..
        }
    ));
    assert!(absent(&nothing).to_string().contains("/proc/self/cgroup"));
}

#[test]
fn files_that_were_cut_give_no_figure() {
    let root = Root::container();
    let cgroup = Cgroup::of_process_in(root.path()).unwrap();
    let malformed = |file| Err(Absent::Malformed { file });
    for end in 0..STAT.len() {
        // Every figure or none: never a number with digits missing.
        root.put("sys/fs/cgroup/memory.stat", &STAT[..end]);
        match cgroup.read() {
            Ok(memory) => assert_eq!((memory.own.anon, memory.own.slab_reclaimable), (ANON, SLAB)),
            Err(why) => assert_eq!(
                why,
                Absent::Malformed {
                    file: "memory.stat"
                }
            ),
        }
    }
    root.put("sys/fs/cgroup/memory.stat", STAT);
    for text in ["", "12", "max\n", "-5\n", "99999999999999999999\n"] {
        root.put("sys/fs/cgroup/memory.current", text);
        assert_eq!(cgroup.read(), malformed("memory.current"), "{text:?}");
    }
    root.put("sys/fs/cgroup/memory.current", "4096\n");
    root.put("sys/fs/cgroup/memory.max", "lots\n");
    assert_eq!(cgroup.read(), malformed("memory.max"));
    root.put("proc/self/cgroup", "0:/\n");
    assert_eq!(
        absent(&root),
        Absent::Malformed {
            file: "/proc/self/cgroup"
        }
    );
}

#[test]
fn pressure_stall_information_is_read() {
    let root = Root::container();
    root.put("proc/pressure/memory", &psi(0.22, 0.07));
    let read = PsiFile::of_system_in(root.path()).read().unwrap();
    assert_eq!((read.some.avg10, read.full.avg10), (0.22, 0.07));
    assert_eq!((read.some.avg60, read.some.total), (1.17, 58_761_459));
    root.put("proc/pressure/memory", "some avg10=0.22 avg60=0.1");
    let file = "memory.pressure";
    assert_eq!(
        PsiFile::of_system_in(root.path()).read(),
        Err(Absent::Malformed { file })
    );
    root.remove("proc/pressure/memory");
    let errno = libc::ENOENT;
    assert_eq!(
        PsiFile::of_system_in(root.path()).read(),
        Err(Absent::Unreadable { file, errno })
    );
}

#[test]
fn this_machine_is_read_or_absent_for_a_reason() {
    match Cgroup::of_process() {
        Ok(cgroup) => {
            let memory = cgroup.read().unwrap();
            assert!(memory.own.working() <= memory.own.current);
            assert!(memory.own.anon <= memory.own.current);
        }
        Err(why) => eprintln!("no cgroup here: {why}"),
    }
    match PsiFile::of_system().read() {
        Ok(psi) => assert!(psi.full.total <= psi.some.total && psi.some.avg10 <= 100.0),
        Err(why) => eprintln!("no PSI here: {why}"),
    }
}

const STATUS: &str = "Name:\tapp\nVmPeak:\t 900000 kB\nVmSize:\t  800000 kB\nVmRSS:\t  1620 kB\nRssAnon:\t     116 kB\n\
    RssFile:\t    1504 kB\nRssShmem:\t       0 kB\nVmData:\t     360 kB\nVmSwap:\t       8 kB\n";

#[test]
fn the_process_is_read_and_cut_files_are_not() {
    let root = Root::new();
    root.put("proc/self/status", STATUS);
    let memory = process_memory_in(root.path()).unwrap();
    assert_eq!((memory.anon, memory.resident), (116 << 10, 1620 << 10));
    assert_eq!((memory.reserved, memory.swap), (360 << 10, 8 << 10));
    let file = "/proc/self/status";
    for (without, right) in [("RssAnon", false), ("VmData", false), ("VmSwap", true)] {
        let text: String = STATUS
            .split_inclusive('\n')
            .filter(|line| !line.starts_with(without))
            .collect();
        root.put("proc/self/status", &text);
        let read = process_memory_in(root.path());
        assert_eq!(read.is_ok(), right, "{without}");
        assert!(right || read == Err(Absent::Malformed { file }));
    }
    root.put(
        "proc/self/smaps_rollup",
        "7ff-7fff ---p 0 00:00 0 [rollup]\nLazyFree:     12 kB\n",
    );
    assert_eq!(lazy_free_bytes_in(root.path()), Ok(12 << 10));
}

/// Requested, resident and reserved are three numbers.
#[test]
fn memory_that_is_not_touched_is_reserved_and_not_resident() {
    // As tests run beside each other: more than any of them has.
    const SIZE: u64 = 2 << 30;
    let before = (process_memory().unwrap(), A.usage_exact().current);
    let mut block: Vec<u8> = Vec::with_capacity(SIZE as usize);
    let after = (process_memory().unwrap(), A.usage_exact().current);
    assert!(after.1 - before.1 >= SIZE - 200 * MIB);
    assert!(after.0.reserved - before.0.reserved >= SIZE - 400 * MIB);
    assert!(after.0.anon < before.0.anon + 400 * MIB);
    block.resize(512 << 20, 1);
    let touched = process_memory().unwrap();
    assert!(touched.anon + 64 * MIB >= before.0.anon + 512 * MIB);
    assert!(touched.resident >= touched.anon);
}

#[test]
fn lazily_freed_memory_is_told_apart() {
    const SIZE: usize = 64 << 20;
    let page = homefree_thread::sys::map(SIZE).unwrap();
    // SAFETY: a fresh mapping of that size, used by nobody else.
    unsafe {
        page.as_ptr().write_bytes(1, SIZE);
        assert_eq!(
            libc::madvise(page.as_ptr().cast(), SIZE, libc::MADV_FREE),
            0
        );
    }
    let lazy = lazy_free_bytes();
    // SAFETY: mapped above.
    unsafe { homefree_thread::sys::unmap(page, SIZE) };
    match lazy {
        Ok(bytes) => assert!(bytes >= 32 << 20, "{bytes}"),
        Err(why) => eprintln!("not readable here: {why}"),
    }
}
