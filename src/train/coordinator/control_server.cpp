#include "train/coordinator/control_server.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

/// Requests that are answered in one look; the others wait for the next one.
constexpr std::size_t kAtATime = 16;
/// Leftovers that are cleared at a time.
constexpr std::size_t kLeftovers = 10000;

bool printable(const std::string& text) {
    return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

ControlServer::ControlServer(const std::string& path, Handler handler)
    : folder_(path, ControlFolder::Make::kYes),
      handler_(std::move(handler)),
      token_(random_token()) {
    clear();
    folder_.put("run", token_ + "\n");
}

ControlServer::~ControlServer() {
    await_readers();
    clear();
    ::rmdir(folder_.path().c_str());  // unless something else lies there
}

/// Who asked last may not have read the answer yet; who has gone away never will.
void ControlServer::await_readers() const noexcept {
    constexpr Clock::Seconds kMost{1};
    constexpr Clock::Seconds kPause{0.005};
    try {
        folder_.remove("run");
        const SteadyClock clock;
        const Clock::Seconds end = clock.now() + kMost;
        while (!folder_.list("reply-", 1).empty() && clock.now() < end) {
            std::this_thread::sleep_for(kPause);
        }
    } catch (const std::exception& error) {  // no memory
        log_warn("[{}] answers not awaited: {}", folder_.path(), error.what());
    }
}

void ControlServer::clear() const noexcept {
    try {
        folder_.remove("run");
        for (const char* prefix : {"request-", "reply-", ".part-"}) {
            for (const std::string& name : folder_.list(prefix, kLeftovers)) {
                folder_.remove(name);
            }
        }
    } catch (const std::exception& error) {  // no memory
        log_warn("[{}] not cleared: {}", folder_.path(), error.what());
    }
}

void ControlServer::look(Clock::Seconds now) {
    if (looked_ && now - *looked_ < kLook) {
        return;
    }
    looked_ = now;
    for (const std::string& name : folder_.list("request-", kAtATime)) {
        answer(name);
    }
}

void ControlServer::answer(const std::string& name) {
    const auto content = folder_.read(name, kControlBytes);
    // Taken away first: what cannot be taken away must not be carried out again and again.
    if (!content || !folder_.remove(name)) {
        return;
    }
    const ControlReply reply = reply_to(*content);
    if (!reply.accepted) {
        log_warn("[{}/{}] request refused: {}", folder_.path(), name, reply.text);
    }
    try {
        folder_.put("reply-" + name.substr(name.find('-') + 1),
                    (reply.accepted ? "accepted\n" : "refused\n") + reply.text);
    } catch (const FileError& error) {
        log_warn("{}", error.what());
    }
}

ControlReply ControlServer::reply_to(const ControlFolder::Content& content) const {
    if (!content.refused.empty()) {
        return {.accepted = false, .text = content.refused};
    }
    const std::string& text = content.text;
    const std::size_t line = text.find('\n');
    if (line == std::string::npos || !text.ends_with('\n') || text.size() - line < 3) {
        return {.accepted = false, .text = "not a request: two lines are one"};
    }
    if (text.substr(0, line) != token_) {
        return {.accepted = false, .text = "meant for another run"};
    }
    const std::string words = text.substr(line + 1, text.size() - line - 2);
    if (!printable(words)) {
        return {.accepted = false, .text = "not a request: it holds control characters"};
    }
    try {
        return {.accepted = true, .text = handler_(words)};
    } catch (const Error& error) {
        return {.accepted = false, .text = error.what()};
    }
}

}  // namespace cohort
