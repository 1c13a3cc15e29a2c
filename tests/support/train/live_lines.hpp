#pragma once

#include <string>

namespace cohort::test {

/// Lines of a run's metrics.jsonl, each with its end.
inline std::string start_line(int workers = 4) {
    return R"({"event":"start","samples_applied":0,"model":"lenet","arch":"servers","mode":"ssgd",)"
           R"("workers":)" +
           std::to_string(workers) +
           R"(,"servers":1,"batch":32,"budget_samples":60000,"compute":"network"})"
           "\n";
}

/// Worker 0 is the fastest and waits, worker 1 computes, worker 2 is slow, worker 3 is lost.
inline std::string train_line(int samples = 15000, int budget = 60000) {
    return R"({"event":"train","samples_applied":)" + std::to_string(samples) +
           R"(,"budget_samples":)" + std::to_string(budget) +
           R"(,"updates":120,"train_s":30,"lr":0.05,"gradient_norm":1,"samples_per_s":500,)"
           R"("mode":"ssgd","live":3,"pending":2,"lag":[0,0.5,1.75,null],)"
           R"("own_s":[0.1,0.2,0.4,null],"loss":0.4366,"accuracy":0.8427,)"
           R"("tau_s":[0.1,0.2,0.4,null],"wait_s":[0.3,0.1,0,null],"batch":[32,32,64,null],)"
           R"("slow":[null,null,"device",null]})"
           "\n";
}

inline std::string switch_line() {
    return R"({"event":"switch","from":"ssgd","to":"static:2","why":"worker 2 is 4.0x slower",)"
           R"("samples_applied":9000,"requested_at":18,"in_force_after_s":0.1,)"
           R"("first_update_after_s":0.2,"slowest_own_s":0.4})"
           "\n";
}

inline std::string summary_line(const std::string& reason = "budget") {
    return R"({"event":"summary","mode":"ssgd","samples_applied":60000,"updates":480,)"
           R"("train_s":122,"wall_s":125,"samples_per_s":490,"stop_reason":")" +
           reason + "\"}\n";
}

}  // namespace cohort::test
