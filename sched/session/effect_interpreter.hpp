#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "cohort/sched/update_engine.hpp"
#include "sched/session/training_session.hpp"
#include "sched/session/update_order.hpp"

namespace cohort {

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
    virtual void refuse(const Refuse& /*refusal*/, const PushTicket& /*ticket*/, bool /*held*/) {}
    /// A push was refused because its numbers are not finite.
    virtual void dropped(const PushTicket& ticket) = 0;
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
    void push(const PushTicket& ticket);
    void carry_out(const std::vector<Effect>& effects);
    /// Pushes that the engine has neither applied nor refused.
    [[nodiscard]] const std::map<PushId, PushTicket>& held() const noexcept { return held_; }
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
    std::map<PushId, PushTicket> held_;
};

}  // namespace cohort
