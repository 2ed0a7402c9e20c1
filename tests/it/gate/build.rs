//! `kiln stage MANIFEST`: a signed build, installed by real dpkg into the node's tree, and put on trial.

use std::os::unix::fs::PermissionsExt as _;

use camino::Utf8PathBuf;
use kiln::command::{Cmd, Tool};
use kiln::digest::Sha256;
use kiln::failure::Exit;
use kiln::kernel::Release;

use super::node::{A, FIT, Node};
use crate::statements;
use crate::support::grub::{initrd, kernel};
use crate::support::{Case, Outcome, Stop, skip};
use kiln::boot::block::Slot;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("gate::00_signed_build_is_staged", staged),
        Case::new(
            "gate::00_build_that_is_not_proven_is_not_staged",
            not_proven,
        ),
        Case::new("gate::00_package_of_another_kernel_is_not_armed", another),
    ]
}

/// What the image package runs when it is installed: it makes the initrd, and notes the state of the
/// gate in that moment.
const POSTINST: &str = "#!/bin/sh\nset -e\ncp /initrd-of-the-hook /boot/initrd.img-RELEASE\n\
                        cp /boot/grub/gate/state.env /state-in-the-hook\n";

/// A node with what dpkg needs of a root, and a signed build of a release with this configuration.
struct World {
    node: Node,
    release: Release,
}

impl World {
    fn new(config: &str) -> Result<Self, Stop> {
        if !rustix::process::geteuid().is_root() {
            return Err(skip("dpkg installs into another root only for root"));
        }
        let shell = Utf8PathBuf::from("/bin/busybox");
        if !shell.exists() {
            return Err(skip("busybox-static is not installed"));
        }
        let node = Node::set_up()?;
        node.write("bin/busybox", std::fs::read(shell)?)?;
        let path = node.path("bin/busybox");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
        for name in ["sh", "cp"] {
            std::os::unix::fs::symlink("busybox", node.path(&format!("bin/{name}")))?;
        }
        node.write("var/lib/dpkg/status", "")?;
        node.write("var/lib/dpkg/updates/.keep", "")?;
        node.write("var/lib/dpkg/info/.keep", "")?;
        std::fs::remove_file(node.path("var/lib/dpkg/updates/.keep"))?;
        node.write("initrd-of-the-hook", initrd(Slot::B))?;
        let release = statements::manifest()?.release;
        let world = Self { node, release };
        world.package(config)?;
        Ok(world)
    }

    /// Makes the package and the signed manifest that names it.
    fn package(&self, config: &str) -> Outcome {
        let (node, release) = (&self.node, &self.release);
        let control = format!(
            "Package: linux-image-{release}\nVersion: 6.18.40-1\nArchitecture: amd64\n\
             Maintainer: nobody <nobody@example.org>\nDescription: a kernel\n"
        );
        node.write("deb/DEBIAN/control", control)?;
        let hook = POSTINST.replace("RELEASE", &release.to_string());
        node.write("deb/DEBIAN/postinst", hook)?;
        let hook = node.path("deb/DEBIAN/postinst");
        std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755))?;
        node.write(&format!("deb/boot/vmlinuz-{release}"), kernel("slot-b")?)?;
        node.write(&format!("deb/boot/config-{release}"), config)?;
        let file = format!("linux-image-{release}.deb");
        std::fs::create_dir_all(node.path("out/packages"))?;
        let target = node.path(&format!("out/packages/{file}"));
        Cmd::new(&Tool::find("dpkg-deb")?)
            .args(["--root-owner-group", "-Znone", "-b"])
            .args([node.path("deb").as_str(), target.as_str()])
            .run()?;
        let bytes = std::fs::read(&target)?;
        let mut manifest = statements::manifest()?;
        manifest.packages[0].name = format!("linux-image-{release}");
        manifest.packages[0].file = file;
        manifest.packages[0].bytes = bytes.len() as u64;
        manifest.packages[0].sha256 = Sha256::of(&bytes);
        manifest.config = Sha256::of(FIT.as_bytes());
        node.write("out/sbom.json", statements::SBOM)?;
        let payload = manifest.to_payload()?;
        node.write(
            "out/manifest.json",
            statements::signed("manifest", &payload, &[1])?,
        )?;
        self.trusted("builder")
    }

    /// The node's roles file, in which the key of the tests has this role.
    fn trusted(&self, role: &str) -> Outcome {
        let text = statements::roles_text(&[(role, "ci", 1, "")]);
        self.node.write("etc/kiln/roles.yaml", text)
    }

    fn stage(&self) -> Result<crate::support::Ran, Stop> {
        let manifest = self.node.path("out/manifest.json");
        self.node.run(&["stage", manifest.as_str()]).run()
    }

    fn is_untouched(&self) -> Outcome {
        assert!(!self.node.has(&format!("boot/vmlinuz-{}", self.release)));
        assert!(!self.node.has("boot/grub/gate/b") && self.node.block()?.trial.is_none());
        Ok(())
    }
}

/// Verified, installed, tried in real GRUB; while the hooks of the package ran, nothing was armed.
fn staged() -> Outcome {
    let world = World::new(FIT)?;
    let node = &world.node;
    let release = world.release.to_string();
    let ran = world.stage()?.exits(0)?;
    ran.says(&format!("armed for a trial of two attempts: {release}"))?
        .says("1. slot b: kept if its checks pass within 105 s")?
        .says("2. slot b again")?
        .says(&format!("3. slot a ({A}), which is good"))?
        .says("not ended by itself: all processors stuck at once")?
        .says("not ended by itself: firmware, GRUB or the kernel")?;
    let hook = std::fs::read(node.path("state-in-the-hook"))?;
    let hook = kiln::boot::block::Block::parse(&hook).expect("it is whole");
    assert_eq!(hook.trial, None);
    let plan = node.path("boot/grub/gate/b/plan.json");
    let plan: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    assert_eq!(plan["manifest"], node.manifest_id()?);
    assert_eq!(plan["config"], Sha256::of(FIT.as_bytes()).to_string());
    assert!(!node.has("var/lib/kiln/boot/install"));
    assert_eq!(node.boot()?, "b trial counted 1");
    // Staged again while it is armed: taken back first, and the hooks run with nothing armed.
    let world = World::new(FIT)?;
    world.stage()?.exits(0)?;
    let first = world.node.block()?.generation;
    world.stage()?.exits(0)?;
    let hook = std::fs::read(world.node.path("state-in-the-hook"))?;
    let hook = kiln::boot::block::Block::parse(&hook).expect("it is whole");
    assert_eq!((hook.trial, hook.generation), (None, first));
    Ok(())
}

/// The twins: nobody whom the node knows signed it, a byte of the package changed, the node cannot
/// count. Nothing is installed.
fn not_proven() -> Outcome {
    let world = World::new(FIT)?;
    let package = world
        .node
        .path(&format!("out/packages/linux-image-{}.deb", world.release));
    world.trusted("rebuilder")?;
    world
        .stage()?
        .exits(Exit::StatementRejected)?
        .warns("not builder")?;
    std::fs::remove_file(world.node.path("etc/kiln/roles.yaml"))?;
    world
        .stage()?
        .exits(Exit::Usage)?
        .warns("/etc/kiln/roles.yaml")?;
    world.trusted("builder")?;
    world.is_untouched()?;
    let bytes = std::fs::read(&package)?;
    let mut changed = bytes.clone();
    changed[1000] ^= 1;
    std::fs::write(&package, &changed)?;
    world.stage()?.exits(Exit::NotVerified)?;
    world.is_untouched()?;
    std::fs::write(&package, bytes)?;
    std::fs::remove_file(world.node.path("etc/kiln/node.yaml"))?;
    world
        .stage()?
        .exits(Exit::NodeRefused)?
        .warns("boot rehearse")?;
    world.is_untouched()?;
    world
        .node
        .write("etc/kiln/node.yaml", "kiln: 1\nrehearsal: by-image\n")?;
    world.stage()?.exits(0)?;
    Ok(())
}

/// The package is the one that was signed, and leaves another configuration than the manifest says, or
/// one with which it would hang.
fn another() -> Outcome {
    let world = World::new(&FIT.replace("SOFTLOCKUP", "SOFTLOCKUPS"))?;
    world
        .stage()?
        .exits(Exit::NodeRefused)?
        .warns("the manifest's configuration")?;
    assert!(!world.node.has("boot/grub/gate/b") && world.node.block()?.trial.is_none());
    let ran = world
        .node
        .kiln(&["stage", world.node.path("out/absent.json").as_str()])?;
    ran.exits(Exit::Usage)?;
    Ok(())
}
