//! The card of the dashboard with the limits and rates of tags.

mod support;

use support::Broker;

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_is_offered_a_rate_and_its_removal() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let html = client.get("/queues").await.text();
    assert!(html.contains("data-put=\"/v1/limits/{tag}/rate\""), "{html}");
    assert!(!html.contains("data-path=\"/v1/limits/"), "there is nothing to remove: {html}");
    let json = [("content-type", "application/json")];
    let rate = b"{\"count\":10,\"period_ms\":60000}";
    assert_eq!(client.ask("PUT", "/v1/limits/a%2Fb/rate", &json, rate).await.status, 204);
    let html = client.get("/queues").await.text();
    assert!(html.contains("data-path=\"/v1/limits/a%2Fb/rate\""), "{html}");
    assert!(!html.contains("data-path=\"/v1/limits/a%2Fb\""), "it has no limit: {html}");
}
