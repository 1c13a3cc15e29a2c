#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/train/trainer.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/protocol/protocol.hpp"

namespace cohort {

/// A worker's messages to and from the coordinator. Only the computing thread uses it, unless
/// something else is said.
class CoordinatorLink {
public:
    using OrderHandler = std::function<void(const Message&)>;
    using Missing = std::function<std::vector<int>()>;
    /// How often a waiting worker looks whether its rank was asked to stop.
    static constexpr Clock::Seconds kLook{0.1};

    CoordinatorLink(const CommContext& comm, const TrainEnvironment& environment)
        : comm_(comm), environment_(environment) {}

    [[nodiscard]] static Address address() noexcept { return {0, Port::kCoordinator}; }
    /// The coordinator's rank, for await.
    [[nodiscard]] static Missing from_coordinator();
    /// Who gets the orders, kStop excepted.
    void set_handler(OrderHandler handler) { handler_ = std::move(handler); }

    template <class Kind, class T>
    void tell(Kind kind, const T& what) {
        comm_.send(address(), Port::kWorker, kind, what);
    }

    /// kBegin has been received. From any thread.
    [[nodiscard]] bool begun() const noexcept { return begun_; }
    /// kStop has been received.
    [[nodiscard]] bool stopped() const noexcept { return stopped_; }
    /// Takes orders. @return work that can be given up should be: kStop has been received, or this
    /// rank has asked for it
    [[nodiscard]] bool stopping();
    /// Hands out the messages received so far, and tells the coordinator when this rank was asked
    /// to stop.
    void take_orders();
    /// Takes orders until `ready` or kStop. Sleeps under a named wait, see OperationBoard::begin:
    /// for what peers owe, or (kNone) for work.
    /// @param look asks `ready` again after this time if no order came
    void await(std::string_view name, std::uint64_t sequence, const std::function<bool()>& ready,
               Missing missing, WaitLimit limit, Clock::Seconds look = kLook);
    /// A named wait for this rank's own long work, whose length depends on no peer.
    [[nodiscard]] OperationBoard::Wait working(std::string_view name, std::uint64_t sequence) {
        return comm_.operations.begin(name, sequence, {}, WaitLimit::kWarn);
    }

private:
    void handle(const Message& message);

    CommContext comm_;
    const TrainEnvironment& environment_;
    OrderHandler handler_;
    std::atomic<bool> begun_{false};
    bool stopped_ = false;
    bool stop_asked_ = false;  ///< kStopRequested has been sent
};

/// An order that this worker cannot know. Errors: PeerError, always.
[[noreturn]] void refuse_order(const Message& message);

}  // namespace cohort
