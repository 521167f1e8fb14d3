//! The part of an SMF's configuration that concerns adit. `docs/interop.md` shows the same blocks
//! for its example network; a test compares them.

use std::fmt::Write as _;

use super::plan::InitPlan;
use crate::cli::{CoreKind, PoolText};

/// A file for an SMF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CoreFile {
    /// The file's name, in the folder of `adit.toml`.
    pub name: &'static str,
    /// Where the operator has to put the contents.
    pub place: &'static str,
    pub text: String,
}

/// Returns the files for the SMF of a plan; none for an unknown core.
pub(super) fn files(plan: &InitPlan) -> Vec<CoreFile> {
    let file = |name, place, text| CoreFile { name, place, text };
    match plan.core {
        CoreKind::Open5gs => {
            vec![file("open5gs-smf.yaml", "into smf.yaml of Open5GS", open5gs(plan))]
        }
        CoreKind::Free5gc => vec![file(
            "free5gc-smfcfg.yaml",
            "under configuration in smfcfg.yaml of free5GC, with your slice",
            free5gc(plan),
        )],
        CoreKind::SdCore => vec![
            file(
                "sd-core-device-group.json",
                "POST it to /device-group/NAME of the webconsole, with your IMSIs and rates",
                device_group(plan),
            ),
            file(
                "sd-core-network-slice.json",
                "POST it to /network-slice/NAME, with your slice, PLMN and gNBs",
                network_slice(plan),
            ),
        ],
        CoreKind::Oai => {
            vec![file("oai-smf.yaml", "into config.yaml of OAI, with your slice", oai(plan))]
        }
        CoreKind::Other => Vec::new(),
    }
}

fn smf(plan: &InitPlan) -> String {
    plan.smf.map_or_else(|| "SMF-ADDRESS".to_owned(), |smf| smf.to_string())
}

fn open5gs(plan: &InitPlan) -> String {
    let (smf, upf, dnns) = (smf(plan), plan.n4.addr, plan.dnns().join(", "));
    let mut text = format!(
        "smf:
  pfcp:
    server:
      - address: {smf}
    client:
      upf:
        - address: {upf}
          dnn: [{dnns}]
  gtpu:
    server:
      - address: {smf}
  session:
"
    );
    for PoolText { dnn, prefix } in &plan.pools {
        let gateway = prefix.nth(1);
        let lines = ["- subnet: ", "  gateway: ", "  dnn: "];
        for (line, value) in
            lines.iter().zip([prefix.to_string(), gateway.to_string(), dnn.clone()])
        {
            let _ = writeln!(text, "    {line}{value}");
        }
    }
    text + "  mtu: 1400\n"
}

fn free5gc(plan: &InitPlan) -> String {
    let (smf, upf) = (smf(plan), plan.n4.addr);
    let mut text = format!(
        "pfcp:
  nodeID: {smf}
  listenAddr: {smf}
  externalAddr: {smf}
  heartbeatInterval: 10s
userplaneInformation:
  upNodes:
    gNB1:
      type: AN
    UPF:
      type: UPF
      nodeID: {upf}
      addr: {upf}
      sNssaiUpfInfos:
        - sNssai:
            sst: 1
            sd: \"010203\"
          dnnUpfInfoList:
"
    );
    for dnn in plan.dnns() {
        let _ = writeln!(text, "            - dnn: {dnn}\n              pools:");
        for pool in plan.pools.iter().filter(|pool| pool.dnn == dnn) {
            let _ = writeln!(text, "                - cidr: {}", pool.prefix);
        }
    }
    text.push_str("      interfaces:\n        - interfaceType: N3\n          endpoints:\n");
    for link in &plan.n3.links {
        let _ = writeln!(text, "            - {}", link.addr);
    }
    text.push_str("          networkInstances:\n");
    for dnn in plan.dnns() {
        let _ = writeln!(text, "            - {dnn}");
    }
    text + "  links:\n    - A: gNB1\n      B: UPF\n"
}

fn device_group(plan: &InitPlan) -> String {
    let pool = plan.pools.first();
    let dnn = pool.map_or("internet", |pool| &pool.dnn);
    let prefix = pool.map_or_else(String::new, |pool| pool.prefix.to_string());
    format!(
        "{{
  \"imsis\": [\"208930000000001\"],
  \"site-info\": \"site-1\",
  \"ip-domain-name\": \"pool1\",
  \"ip-domain-expanded\": {{
    \"dnn\": \"{dnn}\",
    \"ue-ip-pool\": \"{prefix}\",
    \"dns-primary\": \"8.8.8.8\",
    \"mtu\": 1400,
    \"ue-dnn-qos\": {{
      \"dnn-mbr-uplink\": 100,
      \"dnn-mbr-downlink\": 200,
      \"bitrate-unit\": \"Mbps\",
      \"traffic-class\": {{ \"name\": \"platinum\", \"qci\": 9, \"arp\": 6, \"pdb\": 300, \"pelr\": 6 }}
    }}
  }}
}}
"
    )
}

fn network_slice(plan: &InitPlan) -> String {
    let upf = plan.n4.addr;
    format!(
        "{{
  \"slice-id\": {{ \"sst\": \"1\", \"sd\": \"010203\" }},
  \"site-device-group\": [\"internet-ues\"],
  \"site-info\": {{
    \"site-name\": \"site-1\",
    \"plmn\": {{ \"mcc\": \"208\", \"mnc\": \"93\" }},
    \"gNodeBs\": [{{ \"name\": \"gnb-1\", \"tac\": 1 }}],
    \"upf\": {{ \"upf-name\": \"{upf}\", \"upf-port\": 8805 }}
  }}
}}
"
    )
}

fn oai(plan: &InitPlan) -> String {
    let upf = plan.n4.addr;
    let instance = plan.network_instance().unwrap_or_default();
    let mut text = format!(
        "smf:
  upfs:
    - host: {upf}
      port: 8805
      config:
        enable_usage_reporting: no
      upf_info:
        interfaceUpfInfoList:
          - interfaceType: N3
            networkInstance: access.oai.org
          - interfaceType: N6
            networkInstance: {instance}
  smf_info:
    sNssaiSmfInfoList:
      - sNssai:
          sst: 1
        dnnSmfInfoList:
"
    );
    for dnn in plan.dnns() {
        let _ = writeln!(text, "          - dnn: {dnn}");
    }
    text.push_str("\ndnns:\n");
    for PoolText { dnn, prefix } in plan.pools.iter().filter(|pool| pool.prefix.addr.is_ipv4()) {
        let _ =
            writeln!(text, "  - dnn: {dnn}\n    pdu_session_type: IPV4\n    ipv4_subnet: {prefix}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::super::tests::{parse, plan_of_documents};
    use super::*;
    use crate::config::Config;

    const DOCUMENT: &str = include_str!("../../../../docs/interop.md");

    /// Returns the code blocks in `language` of a chapter.
    fn blocks(chapter: &str, language: &str) -> Vec<String> {
        let (_, rest) = DOCUMENT.split_once(&format!("\n## {chapter}\n")).unwrap();
        let chapter = rest.split("\n## ").next().unwrap();
        let fence = format!("```{language}\n");
        let blocks = chapter.split(&fence).skip(1);
        blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
    }

    const CHAPTERS: [(&str, CoreKind, &str); 4] = [
        ("Open5GS", CoreKind::Open5gs, "yaml"),
        ("free5GC", CoreKind::Free5gc, "yaml"),
        ("SD-Core", CoreKind::SdCore, "json"),
        ("OAI", CoreKind::Oai, "yaml"),
    ];

    #[test]
    fn documents_have_the_blocks_that_init_writes() {
        for (chapter, core, language) in CHAPTERS {
            let written: Vec<_> =
                files(&plan_of_documents(core)).into_iter().map(|file| file.text).collect();
            assert_eq!(blocks(chapter, language), written, "docs/interop.md, {chapter}");
        }
    }

    #[test]
    fn documents_have_n4_and_network_instances_as_init_writes_them() {
        for (chapter, core, _) in CHAPTERS {
            let shown = parse(&blocks(chapter, "toml")[0]).unwrap();
            let plan = plan_of_documents(core);
            let written = parse(&file::text(&plan)).unwrap();
            assert_eq!((&shown.node, &shown.n4), (&written.node, &written.n4), "{chapter}");
            let instances = |config: &Config| -> Vec<Option<String>> {
                config.interfaces.iter().map(|of| of.network_instance.clone()).collect()
            };
            if core != CoreKind::Open5gs {
                // The page of Open5GS has an interface for each of two DNNs.
                assert_eq!(instances(&shown), instances(&written), "{chapter}");
            }
        }
    }
}
