//! The life of calls: cancelling, progress, the end of input, a reader that is slow or gone.

mod server;

use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_python_exec_sandbox::settings::Settings;
use serde_json::{Value, json};
use server::{Client, error_code, fields, settings, text};
use tokio::time::Instant;

fn call(script: &str) -> Value {
    json!({"name": "execute_python", "arguments": {"script": script}})
}

fn call_with_token(script: &str, token: &Value) -> Value {
    json!({"name": "execute_python", "arguments": {"script": script}, "_meta": {"progressToken": token}})
}

#[tokio::test]
async fn cancelling_drops_the_call_and_sends_no_answer() {
    let mut client = Client::initialized().await;
    client.request(2, "tools/call", call("hang")).await;
    client.fake.until("the call runs", |fake| fake.running() == 1).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2, "reason": "user"}})).await;
    client.fake.until("the call is dropped", |fake| fake.running() == 0).await;
    client.quiet().await;
    assert!(text(&client.call(3, "execute_python", json!({"script": "after"})).await).contains("hi"));
    assert_eq!(client.fake.finished.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn other_requests_are_answered_during_a_call() {
    let mut client = Client::initialized().await;
    client.request(2, "tools/call", call("hang")).await;
    client.fake.until("the call runs", |fake| fake.running() == 1).await;
    client.ask(3, "ping", json!({})).await;
    assert!(client.ask(4, "tools/list", json!({})).await["result"]["tools"].is_array());
    assert!(text(&client.call(5, "check_environment", json!({})).await).starts_with("Python version:"));
    client.call(6, "execute_python", json!({"script": "quick"})).await;
    assert_eq!(client.fake.running(), 1);
}

#[tokio::test(start_paused = true)]
async fn progress_keeps_its_token_rises_and_ends_with_the_result() {
    for token in [json!("tok-1"), json!(7), json!("7"), json!(0)] {
        let mut client = Client::initialized().await;
        client.request(2, "tools/call", call_with_token("progress", &token)).await;
        client.answer(2).await;
        let notes = client.others();
        let messages: Vec<_> =
            notes.iter().map(|note| note["params"]["message"].as_str().unwrap_or_default()).collect();
        assert_eq!(
            messages,
            [
                "waiting for a free place, 0 s",
                "downloading (1 of 3), 0 s",
                "running, 0 s",
                "running, 5 s",
                "running, 10 s",
                "running, 11 s: row 1",
            ]
        );
        let values: Vec<_> =
            notes.iter().map(|note| note["params"]["progress"].as_f64().unwrap_or_default()).collect();
        assert!(values.is_sorted_by(|a, b| a < b), "{values:?}");
        for note in &notes {
            assert_eq!(
                (&note["method"], &note["params"]["progressToken"]),
                (&json!("notifications/progress"), &token)
            );
        }
        client.quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_token_there_is_no_progress() {
    let mut client = Client::initialized().await;
    client.request(2, "tools/call", call("progress")).await;
    client.answer(2).await;
    client.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn many_lines_of_output_make_few_notifications() {
    let mut client = Client::initialized().await;
    client.request(2, "tools/call", call_with_token("lines 3000", &json!(1))).await;
    client.answer(2).await;
    let notes = client.others();
    assert!((4..=7).contains(&notes.len()), "{} notifications", notes.len());
    client.request(3, "tools/call", call_with_token("quick", &json!(1))).await;
    client.answer(3).await;
    assert_eq!(client.others(), Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn requests_before_the_end_of_input_are_answered() {
    let mut client = Client::initialized().await;
    for id in 0..5 {
        client.request(id, "tools/call", call("sleep 20")).await;
    }
    client.close_input();
    for id in 0..5 {
        assert!(text(&client.answer(id).await).contains("hi"));
    }
    assert!(client.next().await.is_none());
    assert!(client.ended().await.is_ok());
}

#[tokio::test]
async fn a_last_line_without_a_line_feed_is_read() {
    let mut client = Client::initialized().await;
    client.raw(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}").await;
    client.close_input();
    client.answer(2).await;
    assert!(client.ended().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_input_ends_calls_after_a_short_grace() {
    let mut client = Client::initialized().await;
    client.request(2, "tools/call", call("hang")).await;
    client.fake.until("the call runs", |fake| fake.running() == 1).await;
    let before = Instant::now();
    client.close_input();
    let answer = client.answer(2).await;
    assert_eq!(
        (&answer["result"]["isError"], &fields(&answer)["error"]),
        (&json!(true), &json!("cancelled"))
    );
    assert!(client.next().await.is_none());
    let fake = client.fake.clone();
    assert!(client.ended().await.is_ok());
    assert_eq!(fake.running(), 0);
    let taken = before.elapsed();
    assert!((Duration::from_millis(200)..Duration::from_millis(250)).contains(&taken), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn without_calls_the_end_of_input_is_the_end() {
    for connected in [Client::connect(), Client::initialized().await] {
        let mut client = connected;
        let before = Instant::now();
        client.close_input();
        assert!(client.next().await.is_none());
        assert!(client.ended().await.is_ok());
        assert_eq!(before.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn being_told_to_stop_ends_calls_at_once() {
    let mut client = Client::initialized().await;
    client.request(2, "tools/call", call("hang")).await;
    client.fake.until("the call runs", |fake| fake.running() == 1).await;
    let before = Instant::now();
    client.stop();
    assert_eq!(fields(&client.answer(2).await)["error"], "cancelled");
    let fake = client.fake.clone();
    assert!(client.ended().await.is_ok());
    assert_eq!((fake.running(), before.elapsed()), (0, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_gone_ends_its_calls_at_once() {
    let mut client = Client::initialized().await;
    client.request(2, "tools/call", call("hang")).await;
    client.fake.until("the call runs", |fake| fake.running() == 1).await;
    let before = Instant::now();
    client.close_output();
    client.request(3, "ping", json!({})).await;
    let fake = client.fake.clone();
    assert!(client.ended().await.is_ok());
    assert_eq!((fake.running(), before.elapsed()), (0, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closes_both_ends_is_gone() {
    let mut client = Client::initialized().await;
    client.request(2, "tools/call", call("hang")).await;
    client.fake.until("the call runs", |fake| fake.running() == 1).await;
    client.close_output();
    client.close_input();
    let fake = client.fake.clone();
    assert!(client.ended().await.is_ok());
    assert_eq!(fake.running(), 0);
}

#[tokio::test]
async fn a_slow_reader_loses_nothing_and_holds_back_new_calls() {
    // Room for all of them in the queue.
    let many = Settings { max_concurrent: 16, ..settings() };
    let mut client = Client::connect_with(many, 4096);
    client.initialize("2025-06-18").await;
    let calls = 250;
    for id in 0..calls {
        client.request(id, "tools/call", call("big 39000")).await;
    }
    // Nobody reads: only as many calls run as their results may wait.
    let fake = client.fake.clone();
    fake.until("some calls have ended", |fake| fake.finished.load(Ordering::SeqCst) > 10).await;
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    let ended = fake.finished.load(Ordering::SeqCst);
    assert!(ended < 90, "{ended} calls have run for a client that reads nothing");
    for id in 0..calls {
        assert!(text(&client.answer(id).await).len() > 39_000, "result {id} is cut");
    }
    client.quiet().await;
}

#[tokio::test]
async fn too_many_calls_at_once_are_refused_and_the_others_go_on() {
    let many = Settings { max_concurrent: 16, ..settings() };
    let mut client = Client::connect_with(many, 1 << 16);
    client.initialize("2025-06-18").await;
    for id in 0..256 {
        client.request(id, "tools/call", call("hang")).await;
    }
    let answer = client.call(1000, "execute_python", json!({"script": "x"})).await;
    assert_eq!(error_code(&answer), -32000, "{answer}");
    // Sixteen runs at a time, and as many that are ready to follow; the others wait for them.
    assert_eq!(client.fake.running(), 32);
    for id in 0..256 {
        let params = json!({"requestId": id});
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
    }
    assert!(text(&client.call(1001, "execute_python", json!({"script": "x"})).await).contains("hi"));
    client.fake.until("all are dropped", |fake| fake.running() == 0).await;
    client.quiet().await;
}
