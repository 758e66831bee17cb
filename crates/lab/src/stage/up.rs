//! Starts a stage, and attaches to one that another process started.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, bail};

use super::network::{self, Network};
use super::process::{Identity, ProcessParent};
use super::stage_dir::{self, NodeRecord, Record};
use super::tools::Tools;
use super::watchdog::Watchdog;
use super::{Form, Stage, StageNode, StagePlan, certificates, config, disk, sweep, template};

impl Stage {
    /// Starts a cluster. All nodes are reachable when it returns; Galera nodes are Synced, replicas have applied what the primary has.
    pub async fn up(plan: StagePlan) -> anyhow::Result<Self> {
        Self::up_telling(plan, |_| ()).await
    }

    /// The same, reporting each step to `tell` as one line.
    ///
    /// # Errors
    /// A missing package, a name in use, or a node that did not start (with the end of its log). Nothing is left behind.
    pub async fn up_telling(plan: StagePlan, tell: impl Fn(&str)) -> anyhow::Result<Self> {
        stage_dir::check_name(&plan.name)?;
        if !(1..=5).contains(&plan.nodes) {
            bail!("a stage has 1 to 5 nodes, not {}", plan.nodes);
        }
        let namespaced = plan.form == Form::Automatic && network::may_make_namespaces();
        let tools = Tools::find(plan.kind, plan.server.as_deref(), namespaced)?;
        sweep::leftovers()?;
        let template = template::ready(&tools, plan.kind, &tell).await?;

        let mut stage = Self::claim(&plan, namespaced, tools)?;
        tell("laying the network and the data directories");
        stage.network.make().context("cannot lay the stage's network")?;
        stage.furnish(&plan, &template)?;
        stage.begin(&tell).await?;
        if plan.keep {
            stage_dir::update(&stage.directory, |record| record.kept = true)?;
            stage.clear_on_drop = false;
        }
        Ok(stage)
    }

    /// Attaches to a stage that another process started. Dropping this value leaves the stage running.
    ///
    /// # Errors
    /// When there is no stage with that name: the text lists the existing ones.
    pub fn attach(name: &str) -> anyhow::Result<Self> {
        stage_dir::check_name(name)?;
        let root = stage_dir::root()?;
        let directory = root.join(name);
        let Ok(record) = stage_dir::read(&directory) else {
            let names: Vec<String> =
                stage_dir::stages(&root)?.into_iter().filter_map(|(_, record)| Some(record?.name)).collect();
            stage_dir::tidy_root()?;
            let known = if names.is_empty() {
                "none is up".to_owned()
            } else {
                format!("there is {}", names.join(", "))
            };
            bail!("no stage named {name}: {known}; `understudy lab up galera --name {name}` starts one");
        };
        let tools = Tools::find(record.kind, record.server.as_deref(), record.namespaced)?;
        Ok(Self::assemble(directory, &record, tools, None, false))
    }

    /// Creates the directory and the record, which claim a name and a subnet.
    fn claim(plan: &StagePlan, namespaced: bool, tools: Tools) -> anyhow::Result<Self> {
        let (root, _held) = stage_dir::lock_root()?;
        let mut taken = BTreeSet::new();
        for (path, record) in stage_dir::stages(&root)? {
            if path.ends_with(&plan.name) {
                bail!("a stage named {0} is up already: `understudy lab down --name {0}` ends it", plan.name);
            }
            taken.extend(record.map(|record| record.subnet));
        }
        let record = Record {
            kind: plan.kind,
            server: plan.server.clone(),
            name: plan.name.clone(),
            owner: Identity::own()?,
            kept: false,
            subnet: network::free_subnet(&taken, namespaced)?,
            namespaced,
            galera_options: plan.galera_options.clone(),
            server_options: plan.server_options.clone(),
            nodes: vec![NodeRecord::default(); usize::from(plan.nodes)],
        };
        let process_parent = if plan.keep { None } else { Some(ProcessParent::new()?) };
        let directory = root.join(&plan.name);
        fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let mut stage = Self::assemble(directory, &record, tools, process_parent, true);
        if !plan.keep {
            stage.watchdog = Some(Watchdog::start(&stage.directory)?);
        }
        let longest = stage.nodes.iter().map(|node| node.socket.as_os_str().len()).max();
        if longest.is_some_and(|length| length > 107) {
            bail!(
                "{} is too long a path for unix sockets: set TMPDIR to a shorter one",
                stage.directory.display()
            );
        }
        stage_dir::write(&stage.directory, &record)?;
        Ok(stage)
    }

    fn assemble(
        directory: PathBuf,
        record: &Record,
        tools: Tools,
        process_parent: Option<ProcessParent>,
        clear_on_drop: bool,
    ) -> Self {
        let network = Network {
            stage: record.name.clone(),
            subnet: record.subnet,
            namespaced: record.namespaced,
            nodes: u8::try_from(record.nodes.len()).unwrap_or(u8::MAX),
        };
        let nodes = (1..=network.nodes)
            .map(|number| {
                let name = format!("db{number}");
                let directory = directory.join(&name);
                StageNode {
                    address: SocketAddr::new(network.address(number), config::PORT),
                    namespace: network.namespace(number),
                    datadir: directory.join("data"),
                    socket: directory.join("mysqld.sock"),
                    error_log: directory.join("error.log"),
                    product: tools.version.product,
                    number,
                    directory,
                    name,
                }
            })
            .collect();
        Self {
            kind: record.kind,
            name: record.name.clone(),
            directory,
            network,
            nodes,
            tools,
            process_parent,
            watchdog: None,
            children: Mutex::default(),
            clear_on_drop,
        }
    }

    /// Fills the nodes' directories with data and my.cnf.
    fn furnish(&self, plan: &StagePlan, template: &Path) -> anyhow::Result<()> {
        for node in &self.nodes {
            fs::create_dir_all(node.directory.join("tmp"))?;
            if let Some(size_mb) = plan.disk_mb {
                disk::mount(&node.datadir, size_mb)?;
            }
            template::copy(template, &node.datadir)?;
            let mut kind_lines = self.kind_lines(node, &plan.galera_options)?;
            if plan.tls {
                kind_lines.extend(certificates::lines(&node.directory));
            }
            let text = config::Node {
                address: node.address.ip(),
                directory: &node.directory,
                tools: &self.tools,
                kind_lines,
                server_options: &plan.server_options,
            }
            .text();
            fs::write(node.directory.join("my.cnf"), text)?;
        }
        if plan.tls {
            certificates::write(self)?;
        }
        Ok(())
    }
}
