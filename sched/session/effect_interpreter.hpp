#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "cohort/sched/update_engine.hpp"
#include "sched/session/training_session.hpp"

namespace cohort {

/// A push as it arrived: what the engine is told, and what it need not know.
struct SessionPush {
    PushTicket ticket;
    double correct = 0;  ///< samples that were classified correctly
};

/// An update that has been decided.
struct UpdateOrder {
    struct Term {
        PushId push;
        std::uint64_t lease = 0;
        double coefficient = 0;    ///< in the weighted sum
        std::int64_t version = 0;  ///< of the parameters that the push was computed on
    };
    std::int64_t version = 0;  ///< after the update
    double fraction = 0;       ///< of a reference batch
    double learning_rate = 0;
    Work work = Work::kGradient;
    double delay_compensation = 0;  ///< lambda
    bool ask_norm = false;          ///< for the squared norm of its mean gradient
    std::vector<Term> terms;  ///< in the order of leases, not of arrival: the sum has the same bits
                              ///< whatever the timing
    std::uint32_t epoch = 0;  ///< of the first term's lease
    // Over all terms:
    std::int64_t samples = 0;
    double loss_sum = 0;
    double correct = 0;
    double gradient_norm = 0;  ///< mean
};

/// Carries out what the session orders. Calls come in the order in which they are to be done.
class EffectHandler {
public:
    EffectHandler() = default;
    EffectHandler(const EffectHandler&) = delete;
    EffectHandler& operator=(const EffectHandler&) = delete;
    virtual ~EffectHandler() = default;

    /// Applies an update. The norm that it asks for may be told at once.
    virtual void apply(const UpdateOrder& update, const Fire& fire) = 0;
    /// The session's records contain the update: whatever follows from it.
    virtual void applied(const UpdateOrder& update, const Fire& fire) = 0;
    /// A worker is released beside an update; rounds of a ring release their workers themselves.
    virtual void release(const ReleaseOne& /*release*/) {}
    /// The worker gives up what it computes and starts again. @param lease  returns next; null: the
    /// worker had none
    virtual void interrupt(const Interrupt& interrupt, const ReturnLease* lease) = 0;
    /// The push is not used. @param held  false: its lease had returned before
    virtual void refuse(const Refuse& /*refusal*/, const SessionPush& /*push*/, bool /*held*/) {}
    /// A push was refused because its numbers are not finite.
    virtual void dropped(const SessionPush& push) = 0;
    /// The lease is about to return.
    virtual void returned(const ReturnLease& /*lease*/) {}
};

/// Carries out the engine's effects: the session's records are kept here, the rest is the
/// handler's. The same for real and virtual jobs. Pure.
class EffectInterpreter {
public:
    /// Is told of an effect before the handler, of a refusal after it. @param held  of a refusal
    using Watch = std::function<void(const Effect& effect, bool held)>;
    /// Session and handler outlive it.
    EffectInterpreter(TrainingSession& session, EffectHandler& handler, Watch watch = {})
        : session_(session), handler_(handler), watch_(std::move(watch)) {}

    /// A push is complete: the engine decides, which is carried out.
    void push(const SessionPush& push);
    void carry_out(const std::vector<Effect>& effects);
    /// Pushes that the engine has neither applied nor refused.
    [[nodiscard]] const std::map<PushId, SessionPush>& held() const noexcept { return held_; }
    void forget_pushes() { held_.clear(); }

private:
    void update(const Effect& effect, const Fire& fire);
    void refuse(const Effect& effect, const Refuse& refusal);
    void interrupt(const Effect& effect, const Interrupt& interrupt, const ReturnLease* lease);
    void watch(const Effect& effect, bool held = false) const;
    [[nodiscard]] UpdateOrder order_of(const Fire& fire);
    [[nodiscard]] std::vector<double> coefficients(const Fire& fire) const;

    TrainingSession& session_;
    EffectHandler& handler_;
    Watch watch_;
    std::map<PushId, SessionPush> held_;
};

}  // namespace cohort
