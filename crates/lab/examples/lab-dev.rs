//! dev only
use clap::Parser;
#[derive(Parser)]
enum Dev {
    Failover(lab::command::failover::FailoverArgs),
    Demo(lab::command::failover::DemoArgs),
    Load(lab::command::load::LoadArgs),
    Trace(lab::command::trace::TraceArgs),
    Up,
}
#[tokio::main(flavor = "multi_thread")]
async fn main() -> anyhow::Result<()> {
    match Dev::parse() {
        Dev::Failover(a) => {
            lab::stage::guard(lab::command::failover::run(&a)).await?;
        }
        Dev::Demo(a) => {
            lab::stage::guard(lab::command::failover::demo(&a)).await?;
        }
        Dev::Load(a) => lab::command::load::run(&a).await?,
        Dev::Trace(a) => lab::command::trace::run(&a)?,
        Dev::Up => {
            lab::stage::guard(async {
                let s = lab::stage::Stage::up_telling(
                    lab::stage::StagePlan { name: "dev".into(), ..Default::default() },
                    |l| eprintln!("{l}"),
                )
                .await?;
                for n in s.nodes() {
                    println!("{} {}", n.name, n.address);
                }
                tokio::time::sleep(std::time::Duration::from_secs(1500)).await;
                s.down().await
            })
            .await?;
        }
    }
    Ok(())
}
