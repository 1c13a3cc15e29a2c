#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/interface.hpp"
#include "cohort/core/words.hpp"
#include "cohort/tensor/device.hpp"
#include "cohort/tensor/flat_layout.hpp"

namespace cohort {

enum class OptimizerKind { kSgd, kAdamW };

template <>
inline constexpr auto kWords<OptimizerKind> = std::to_array<std::string_view>({"sgd", "adamw"});

struct OptimizerOptions {
    OptimizerKind kind = OptimizerKind::kSgd;
    double momentum = 0.9;    ///< sgd: m in [0, 1)
    bool nesterov = false;    ///< sgd
    double weight_decay = 0;  ///< lambda >= 0, for ranges whose `decay` is set
    bool decoupled = false;   ///< theta *= (1 - eta lambda)^f instead of g += lambda theta
    double beta1 = 0.9;       ///< adamw: in [0, 1)
    double beta2 = 0.999;     ///< adamw: in [0, 1)
    double epsilon = 1e-8;    ///< adamw: > 0
};

/// Decay of the mean gradient that updates follow: sgd's m, adamw's beta1.
[[nodiscard]] double momentum_of(const OptimizerOptions& options);

/// A float buffer of the optimizer's state, in device memory, one float per parameter of its
/// range. Checkpoints read and write it in place.
struct OptimizerSlot {
    std::string name;  ///< "momentum"; "first_moment", "second_moment", "partial_gradient"
    std::span<float> values;
};

/// A number of the optimizer's state.
struct OptimizerScalar {
    std::string name;
    double value = 0;
};

/// Along what parameters go on without new gradients: an optimizer's state between two updates.
/// While the mean gradient decays over L more reference batches, they move by
///   -eta c d,  c = m (1 - m^L) / (1 - m)  (m: momentum; beta1)
/// sgd (DANA, Hakimi 2019): d = u / (1-m);
/// adamw, in steps of whole batches, with the second moment and the corrections as they are:
/// d = first / (max(sqrt(second), |first|) + epsilon), both moments with their biases corrected.
struct LookAhead {
    std::span<const float> first;   ///< sgd: u; adamw: first moment; empty: no movement is known
    std::span<const float> second;  ///< adamw: second moment; sgd: empty
    double momentum = 0;            ///< m; beta1
    double first_scale = 1;         ///< adamw: corrects the first moment's bias
    double root_scale = 1;          ///< adamw: corrects the bias of the second moment's root
    double epsilon = 0;             ///< adamw

    /// That of the parameters [at, at + n).
    [[nodiscard]] LookAhead part(std::size_t at, std::size_t n) const;
};

/// Applies updates to the parameters [begin, end) (floats) of a flat buffer: all of it, or the
/// shard that one server owns, which may cut through tensors. Padding is never touched.
/// The size of an update is a fraction f of a reference batch (any f > 0; a full batch is f = 1).
/// Updates by parts of a reference batch follow these rules:
///
/// **sgd** keeps the normalised velocity u = (1-m) vel, so that a change of m is continuous.
///   u' = m^f u + (1-m^f) g
///   theta' = theta - eta/(1-m) (f g - m (u'-u)/(1-m))         (Nesterov: m^2 before (u'-u))
/// which is heavy ball integrated over f: z = theta - eta m/(1-m)^2 u obeys
/// z' = z - eta f/(1-m) g for every sequence of f. At f = 1 the code runs the usual rule, in
/// single precision and without fused multiply-add:
///   u' = m u + (1-m) g;  theta' = theta - s u'                (s = eta/(1-m))
///   Nesterov:            theta' = theta - s ((1-m) g + m u')
/// that is vel' = m vel + g, theta' = theta - eta vel' (or eta (g + m vel')); with 1-m a power of
/// two the two forms agree to the last bit.
///
/// **adamw** (Loshchilov & Hutter 2019) decays the first moment by beta1^f and corrects its bias
/// by the product of those; the second moment squares mean gradients of whole reference batches:
/// f g accumulates until f sums to 1, and the remainder starts the next sum. Until the first sum is
/// complete the mean gradient so far is used in its place. The root of the second moment counts at
/// least as much as the first moment, as a mean square is not below the square of the mean: parts
/// of a batch that cancel would leave next to nothing to divide by. The step is eta f. At f = 1 it
/// is plain AdamW.
/// **A delta** is a change of parameters that a worker has computed, over local steps of size f: it
/// is added unchanged, without weight decay. With sgd the velocity is updated as if by the gradient
/// that moves the parameters as far in steady state,
///   theta' = theta + delta;  u' = m^f u - (1-m^f) (1-m)/(eta f) delta,
/// so that plain updates can continue from that state. With adamw the moments do not change.
///
/// Weight decay where the layout says so: coupled (g + lambda theta in place of g) or decoupled.
class Optimizer : public Interface {
public:
    /// One whole update, on all threads of a CPU device; to be called from the thread that runs
    /// the device's other work. @param theta, gradient  device memory, end - begin floats
    /// Errors: those of begin_update and apply.
    void update(std::span<float> theta, std::span<const float> gradient, double fraction,
                double lr);

    /// An update in pieces, e.g. as chunks arrive: begin_update once, then apply for disjoint
    /// pieces that cover the range. Pieces may be applied from several threads at once.
    /// @param fraction f > 0  @param lr eta >= 0
    /// Errors: UsageError for other values, for decoupled decay with eta lambda >= 1, or when the
    /// update before has been applied in part.
    virtual void begin_update(double fraction, double lr) = 0;
    /// Begins an update by a delta: apply() then takes the delta in the gradient's place.
    /// @param lr  eta of the local steps; 0: the velocity does not change
    virtual void begin_delta(double fraction, double lr) = 0;
    /// @param offset first float of the piece, counted from `begin`. Errors: ShapeError;
    /// UsageError when the pieces of an update sum to more than the range.
    virtual void apply(std::int64_t offset, std::span<float> theta,
                       std::span<const float> gradient) = 0;

    /// Changes m (sgd) or beta1 (adamw) from the next update on. Errors: UsageError.
    virtual void set_momentum(double momentum) = 0;
    [[nodiscard]] virtual double momentum() const noexcept = 0;
    /// Along what the parameters go on from here, in device memory.
    [[nodiscard]] virtual LookAhead look_ahead() const = 0;
    /// Restores the scalars of a checkpoint, except m (beta1), which keeps the value of the
    /// options.
    void restore_scalars(std::span<const std::pair<std::string, double>> saved);

    /// State for checkpoints; consistent between two updates.
    [[nodiscard]] virtual std::vector<OptimizerSlot> slots() = 0;
    [[nodiscard]] virtual std::vector<OptimizerScalar> scalars() const = 0;
    /// Errors: UsageError for a name that scalars() does not list.
    virtual void set_scalar(std::string_view name, double value) = 0;

    /// Floats in the range this optimizer was made for.
    [[nodiscard]] virtual std::int64_t size() const noexcept = 0;

protected:
    /// apply() over the whole range.
    virtual void apply_all(std::span<float> theta, std::span<const float> gradient) = 0;
};

/// Makes an optimizer with zeroed state for the floats [begin, end) of `layout`'s buffer.
/// @param device owns the memory of state, parameters and gradients; must outlive the optimizer
/// @param stream where the work is queued (the replica's); must outlive the optimizer
/// Errors: UsageError for options out of range, ShapeError for a range outside the buffer,
/// DeviceError when the device has no optimizer or too little memory.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                                        const FlatLayout& layout,
                                                        std::int64_t begin, std::int64_t end,
                                                        Device& device, Stream& stream);

}  // namespace cohort
