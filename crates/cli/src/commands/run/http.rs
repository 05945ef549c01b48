//! `/metrics`, `/healthz` and `/readyz`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;
use tokio::net::TcpListener;

use super::health::Health;

type Shared = State<(Arc<Health>, PrometheusHandle)>;

/// Serves until it is dropped, through the whole drain.
pub(super) async fn serve(listener: TcpListener, health: Arc<Health>, recorder: PrometheusHandle) {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .with_state((health, recorder));
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "the HTTP server ended");
    }
}

async fn metrics(State((_, recorder)): Shared) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        recorder.render(),
    )
}

async fn alive(State((health, _)): Shared) -> Response {
    answer("alive", &health.ailments())
}

async fn ready(State((health, _)): Shared) -> Response {
    answer("ready", &health.obstacles().await)
}

/// 200, or 503 with every reason.
fn answer(word: &str, reasons: &[String]) -> Response {
    let status = if reasons.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = json!({ word: reasons.is_empty(), "reasons": reasons });
    (
        status,
        [(header::CONTENT_TYPE, "application/json")],
        format!("{body}\n"),
    )
        .into_response()
}
