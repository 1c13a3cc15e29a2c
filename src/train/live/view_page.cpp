#include "train/live/view_page.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/core/version.hpp"
#include "core/markup.hpp"
#include "core/units.hpp"

namespace cohort {
namespace {

/// Rows of the table: a page of thousands of workers would cost more than it tells.
constexpr std::size_t kMostRows = 64;

std::string time_text(double train_s) {
    return format_duration(Clock::Seconds(train_s));
}

std::string header(const RunView& view, double every_s) {
    const std::string refresh =
        view.over ? ""
                  : fmt::format("<meta http-equiv=\"refresh\" content=\"{:.0f}\">\n",
                                std::max(1.0, std::ceil(every_s)));
    return fmt::format(
        "<!DOCTYPE html>\n<!-- a page of cohort train -->\n<html lang=\"en\">\n<head>\n"
        "<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n{}"
        "<title>{:.0f} % {} {}</title>\n<style>\n{}</style>\n</head>\n<body>\n",
        refresh, 100 * view.share_done(), escaped(view.model), escaped(view.life),
        std::string_view(live_styles().front().bytes));
}

std::string fact(std::string_view name, const std::string& value) {
    return value.empty() ? ""
                         : fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, escaped(value));
}

std::string facts(const RunView& view) {
    return "<dl>\n" +
           fact("speed", std::isnan(view.samples_per_s)
                             ? "no update yet"
                             : fmt::format("{:.0f} samples/s", view.samples_per_s)) +
           fact("training", view.scores) + fact("test", view.test) +
           fact("workers", fmt::format("{} live", view.live)) +
           fact("waiting", view.pending > 0 ? counted(view.pending, "push", "pushes") : "") +
           fact("learning rate", std::isnan(view.lr) ? "" : fmt::format("{:.4g}", view.lr)) +
           "</dl>\n";
}

std::string worker_row(const WorkerView& worker) {
    const double share = std::isnan(worker.speed) ? 0 : worker.speed;
    return fmt::format(
        "<tr class=\"{0}\"><th scope=\"row\">{1}</th><td class=\"word\">{0}{2}{3}</td>"
        "<td><span class=\"bar\"><span style=\"width:{4:.0f}%\"></span></span>"
        "<span class=\"share\">{5}</span></td><td>{6}</td><td>{7}</td><td>{8}</td><td>{9}</td>"
        "</tr>\n",
        word_of(worker.state), worker.worker, worker.cause.empty() ? "" : ": ", worker.cause,
        100 * std::clamp(share, 0.0, 1.0), share_text(worker.speed), own_time_text(worker.own_s),
        share_text(worker.waits), lag_text(worker.lag),
        worker.batch > 0 ? std::to_string(worker.batch) : "-");
}

std::string workers(const RunView& view) {
    if (view.workers.empty()) {
        return "";
    }
    const std::vector<WorkerView> shown = shown_workers(view, kMostRows);
    std::string table =
        "<h2>Workers</h2>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>"
        "<th scope=\"col\">worker</th><th scope=\"col\" class=\"word\">state</th>"
        "<th scope=\"col\">speed</th><th scope=\"col\">own time</th><th scope=\"col\">waits</th>"
        "<th scope=\"col\">lag</th><th scope=\"col\">batch</th></tr></thead>\n<tbody>\n";
    for (const WorkerView& worker : shown) {
        table += worker_row(worker);
    }
    return table + "</tbody></table></div>\n<p class=\"note\">" +
           fmt::format(
               "{}{}Speed: share of the fastest worker's. Own time: seconds for one batch "
               "without waiting for others. Waits: share of its time. Lag: reference "
               "batches, of its last push.</p>\n",
               others_text(view, shown), shown.size() < view.workers.size() ? ". " : "");
}

std::string changes(const RunView& view) {
    if (view.changes.empty()) {
        return "";
    }
    std::string list = "<h2>Changes</h2>\n<ul>\n";
    for (const ChangeView& change : view.changes) {
        list +=
            fmt::format("<li><b>{}</b> {}</li>\n", time_text(change.train_s), escaped(change.text));
    }
    return list + "</ul>\n";
}

/// When the page was written, and, where scripts run, how long ago that was: the page of a job that
/// was killed stays as it is.
std::string footer(const RunView& view, std::time_t written) {
    const std::string when = fmt::format("{:%F %T}", fmt::localtime(written));
    const std::string age =
        view.over ? ""
                  : fmt::format(
                        "<script>setInterval(()=>document.getElementById('age').textContent="
                        "', '+Math.round(Date.now()/1000-{})+' s ago',1000)</script>\n",
                        static_cast<std::int64_t>(written));
    return fmt::format(
        "<footer>{}, written {}<span id=\"age\"></span>, cohort {}</footer>\n{}"
        "</body>\n</html>\n",
        escaped(view.name), when, version(), age);
}

}  // namespace

std::string view_page(const RunView& view, double every_s, std::time_t written) {
    const std::string samples = format_count(static_cast<std::uint64_t>(view.samples));
    const std::string budget = format_count(static_cast<std::uint64_t>(view.budget));
    std::string page = header(view, every_s);
    page += fmt::format(
        "<h1>{} <span>{}</span></h1>\n<p class=\"life\"><b class=\"{}\">{}</b> after {} of "
        "training{}</p>\n",
        escaped(view.model), escaped(view.setting), view.life == "failed" ? "lost" : "",
        escaped(view.life), time_text(view.train_s),
        view.note.empty() ? "" : ": " + escaped(view.note));
    page += fmt::format(
        "<progress max=\"1\" value=\"{0:.4f}\">{1:.1f} %</progress>\n"
        "<p>{2} of {3} samples, {1:.1f} %, eta {4}</p>\n",
        view.share_done(), 100 * view.share_done(), samples, budget, view.over ? "-" : view.eta());
    page += facts(view) + workers(view) + changes(view) + footer(view, written);
    return page;
}

}  // namespace cohort
