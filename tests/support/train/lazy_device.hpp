#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "cohort/tensor/device.hpp"

namespace cohort::test {

/// A stream on host memory whose work is done when somebody waits for it, or when told.
class LazyStream final : public Stream {
public:
    /// Later work, as a kernel would be.
    void queue(std::function<void()> work) { state_->work.push_back(std::move(work)); }
    /// Does the oldest `count` pieces of work.
    void run(std::size_t count) const { state_->run_to(state_->done + count); }

    void copy(void* to, const void* from, std::size_t bytes) override {
        queue([=] { std::memmove(to, from, bytes); });
    }
    void fill_zero(void* to, std::size_t bytes) override {
        queue([=] { std::memset(to, 0, bytes); });
    }
    [[nodiscard]] std::unique_ptr<Event> record() override {
        return std::make_unique<LazyEvent>(state_, state_->done + state_->work.size());
    }
    void wait_for(const Event& event) override {
        const auto& lazy = dynamic_cast<const LazyEvent&>(event);
        queue([state = lazy.state_, at = lazy.at_] { state->run_to(at); });
    }
    void synchronize() override { state_->run_to(state_->done + state_->work.size()); }

private:
    struct State {
        void run_to(std::size_t count) {
            while (done < count && !work.empty()) {
                const std::function<void()> first = std::move(work.front());
                work.pop_front();
                ++done;
                first();
            }
        }
        std::deque<std::function<void()>> work;
        std::size_t done = 0;
    };
    class LazyEvent final : public Event {
    public:
        LazyEvent(std::shared_ptr<State> state, std::size_t at)
            : state_(std::move(state)), at_(at) {}
        [[nodiscard]] bool done() const override { return state_->done >= at_; }
        void wait() const override { state_->run_to(at_); }
        [[nodiscard]] double seconds_since(const Event& /*earlier*/) const override { return 0; }

        std::shared_ptr<State> state_;
        std::size_t at_;
    };

    std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// A device in host memory with such streams. It says that it is a GPU.
class LazyDevice final : public Device {
public:
    [[nodiscard]] DeviceKind kind() const override { return DeviceKind::kCuda; }
    [[nodiscard]] std::string description() const override { return "lazy"; }
    [[nodiscard]] Buffer allocate(std::size_t bytes) override {
        constexpr std::size_t kLine = 64;
        void* data = std::aligned_alloc(kLine, std::max(bytes + kLine - 1, kLine) / kLine * kLine);
        if (data == nullptr) {
            throw std::bad_alloc();
        }
        return {data, bytes, [](void* p) noexcept { std::free(p); }};
    }
    [[nodiscard]] Buffer allocate_host(std::size_t bytes) override { return allocate(bytes); }
    [[nodiscard]] std::unique_ptr<Stream> create_stream() override {
        auto stream = std::make_unique<LazyStream>();
        newest_ = stream.get();
        return stream;
    }
    [[nodiscard]] DeviceMemory memory() const override { return {}; }
    /// The stream made last.
    [[nodiscard]] LazyStream& newest() const { return *newest_; }

private:
    LazyStream* newest_ = nullptr;
};

}  // namespace cohort::test
