#pragma once

namespace cohort {

/// When a change of plan pays: the ski-rental rule with a memory.
///
/// What better a plan would do is rent that is paid for staying; a change costs its price once. It
/// is made when the rent paid so far has reached the price (so never more than twice the best
/// possible is lost), or sooner when the slowness is expected to last long enough to pay the price
/// twice over. A small gain must last for two iterations. A change that is undone before it has
/// paid for itself was a bad one, and so is the third within a few iterations: after it a wish must
/// last many times as long, until that is forgotten. So what flickers faster than a change pays
/// stops being answered. Pure.
class SwitchGuard {
public:
    /// What would be better.
    struct Wish {
        double gain = 0;         ///< rate of the best plan over that of the plan in force, less 1
        bool fresher = false;    ///< it is less stale, so the gain is sure
        bool same_plan = false;  ///< only batches change
        bool refines = false;    ///< batches that were balanced are balanced better
        bool back = false;       ///< it undoes the last change
        double noise = 0;        ///< relative, of the workers' times: a gain must be larger
        double life_s = 0;       ///< for how long the gain is expected to last; 0: nobody knows
    };

    /// It promises enough to be wished for: more than the threshold of its kind, and than noise.
    [[nodiscard]] bool worth(const Wish& wish) const noexcept;
    /// One look at what is, at most one per update. @param wish  null: nothing is worth() it
    /// @param iteration_s  own time of the workers, mean
    /// @return true: change now; the caller does, and says so by changed()
    [[nodiscard]] bool look(double now_s, double iteration_s, const Wish* wish);
    /// The plan was changed.
    void changed(double now_s, const Wish& wish);
    /// The same without a wish: workers left, the plan was forbidden.
    void changed_anyway(double now_s);
    /// A detour is over, on which the guard was not asked: something has happened that what was
    /// wished for and changed before knew nothing of: the way back is no change, and one bad change
    /// is forgiven.
    void returned();
    /// Somebody is slow now and then, for short times.
    void flickered();
    /// A change took so much longer than an update takes, seconds.
    void cost(double seconds);

    /// What a change of plan costs, seconds.
    [[nodiscard]] double price_s() const { return price_of({}); }
    /// A wish was put off because changes did not pay lately.
    [[nodiscard]] bool flickers() const noexcept { return patience_ >= kFlickers; }

    static constexpr double kGain = 0.05;         ///< a wish must promise more
    static constexpr double kFresherGain = 0.02;  ///< for a fresher plan, or other batches

private:
    static constexpr double kFlickers = 4;
    [[nodiscard]] double price_of(const Wish& wish) const;
    void begin(double now_s, bool refines);

    double cost_s_ = 0;  ///< of a change of plan, measured; 0: not known yet
    double iteration_s_ = 0;
    double seen_s_ = -1;       ///< last look
    double wished_s_ = -1;     ///< since when; -1: there is no wish
    double rent_s_ = 0;        ///< paid for the wish
    double patience_ = 0;      ///< iterations that a wish must last
    double changed_s_ = -1;    ///< last change, of the plan or of batches alone
    double plan_s_ = -1;       ///< last one that was no refinement
    double before_s_ = -1;     ///< the one before that
    double changed_gain_ = 0;  ///< share of the time that was to be saved by it
    double changed_price_s_ = 0;
};

}  // namespace cohort
