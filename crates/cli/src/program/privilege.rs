//! Programs that start with more rights than ours: for them the loader ignores `LD_PRELOAD`.

use crate::failure::{Failure, status};
use rustix::process::{getegid, geteuid, getgid, getuid};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Checks that starting the file does not gain rights (set-user-id, set-group-id, file capabilities).
///
/// # Errors
/// [`status::NOT_RECORDED`], saying which right.
pub fn check(path: &Path) -> Result<(), Failure> {
    let Ok(meta) = fs::metadata(path) else {
        return Ok(());
    };
    let facts = Facts {
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        real: (getuid().as_raw(), getgid().as_raw()),
        effective: (geteuid().as_raw(), getegid().as_raw()),
        capabilities: has_capabilities(path),
        ignored: rights_ignored(path),
    };
    match facts.gains() {
        Some(gain) => Err(refused(path, &gain)),
        None => Ok(()),
    }
}

/// What decides whether the kernel calls an execution "secure".
struct Facts {
    mode: u32,
    owner: (u32, u32),
    real: (u32, u32),
    effective: (u32, u32),
    capabilities: bool,
    ignored: bool,
}

impl Facts {
    fn gains(&self) -> Option<String> {
        const SET_UID: u32 = 0o4000;
        // Without group execution the bit means mandatory locking.
        const SET_GID: u32 = 0o2010;
        let set_uid = self.mode & SET_UID != 0 && !self.ignored;
        let set_gid = self.mode & SET_GID == SET_GID && !self.ignored;
        let user = if set_uid {
            self.owner.0
        } else {
            self.effective.0
        };
        let group = if set_gid {
            self.owner.1
        } else {
            self.effective.1
        };
        if user != self.real.0 {
            return Some(format!("is setuid (it runs as user {user})"));
        }
        if group != self.real.1 {
            return Some(format!("is setgid (it runs as group {group})"));
        }
        if self.capabilities && !self.ignored && self.real.0 != 0 {
            return Some("has file capabilities".into());
        }
        None
    }
}

fn has_capabilities(path: &Path) -> bool {
    let mut value = [0_u8; 64];
    rustix::fs::getxattr(path, c"security.capability", &mut value).is_ok_and(|len| len > 0)
}

/// Whether such rights have no effect here: `no_new_privs` (containers), or a `nosuid` mount.
fn rights_ignored(path: &Path) -> bool {
    use rustix::fs::{StatVfsMountFlags, statvfs};
    rustix::thread::no_new_privs().unwrap_or(false)
        || statvfs(path).is_ok_and(|fs| fs.f_flag.contains(StatVfsMountFlags::NOSUID))
}

fn refused(path: &Path, gain: &str) -> Failure {
    let name = path.display();
    let advice = match path.file_name().and_then(|n| n.to_str()) {
        Some(base @ ("sudo" | "doas" | "su" | "pkexec")) => {
            format!("put it the other way round: {base} … homefree record -- CMD")
        }
        _ => "record it as root, or record a copy without the right (cp keeps none) if it runs without it".to_string(),
    };
    Failure::new(
        status::NOT_RECORDED,
        format!("not recorded: {name} {gain}"),
    )
    .why("the loader ignores LD_PRELOAD for programs that gain rights by being started, or anybody could run code with them")
    .advice(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            mode: 0o755,
            owner: (0, 0),
            real: (1000, 1000),
            effective: (1000, 1000),
            capabilities: false,
            ignored: false,
        }
    }

    #[test]
    fn an_ordinary_program_gains_nothing() {
        assert_eq!(facts().gains(), None);
    }

    #[test]
    fn set_user_id_set_group_id_and_capabilities_are_told_apart() {
        let set = |mode| Facts { mode, ..facts() }.gains().unwrap_or_default();
        assert!(set(0o4755).contains("setuid"));
        assert!(set(0o2755).contains("setgid"));
        assert_eq!(set(0o2644), "");
        let caps = Facts {
            capabilities: true,
            ..facts()
        };
        assert!(caps.gains().unwrap().contains("capabilities"));
    }

    #[test]
    fn rights_that_change_nothing_do_not_matter() {
        let own = Facts {
            mode: 0o6755,
            owner: (1000, 1000),
            ..facts()
        };
        assert_eq!(own.gains(), None);
        let root = Facts {
            mode: 0o4755,
            real: (0, 0),
            effective: (0, 0),
            capabilities: true,
            ..facts()
        };
        assert_eq!(root.gains(), None);
        let ignored = Facts {
            mode: 0o4755,
            capabilities: true,
            ignored: true,
            ..facts()
        };
        assert_eq!(ignored.gains(), None);
    }

    #[test]
    fn root_starting_another_users_set_user_id_program_counts() {
        let other = Facts {
            mode: 0o4755,
            owner: (33, 33),
            real: (0, 0),
            effective: (0, 0),
            ..facts()
        };
        assert!(other.gains().unwrap().contains("user 33"));
    }
}
