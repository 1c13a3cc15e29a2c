#include "train/worker/ring/gradient_answers.hpp"

#include "optim/vector_math.hpp"

namespace cohort {

GradientAnswer GradientAnswers::answer(const RoundOrder& order, const MemberRounds::Sum& sum) {
    GradientAnswer answer = RoundReport::kNoAnswer;
    const GradientQuestion& asked = order.question;
    if (!asked.any()) {
        return answer;
    }
    if (context_.worker() != order.reporter) {
        kept_.clear();
        return answer;
    }
    const std::size_t parameters = context_.replica().parameters().size();
    std::vector<float> copied;
    if (sum.floats.empty() || sum.on_device) {
        copied.resize(parameters);
        context_.compute().copy(copied, sum.floats.empty() ? context_.replica().gradients()
                                                           : sum.floats.first(parameters));
    }
    const std::span<const float> gradient =
        copied.empty() ? std::span<const float>(sum.floats.first(parameters)) : copied;
    if (asked.norm) {
        answer.squares = sum_of_squares(gradient);
    }
    if (asked.compare && !kept_.empty()) {
        answer.product = dot(gradient, kept_);
        kept_.clear();
    }
    if (asked.keep) {
        kept_.assign(gradient.begin(), gradient.end());
    }
    return answer;
}

}  // namespace cohort
