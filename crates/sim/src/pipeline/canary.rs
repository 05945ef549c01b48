//! Deliberate bugs, each put in at the edge between a machine and its store; each must be caught.

macro_rules! canaries {
    ($($variant:ident = $name:literal, $checkers:expr, $doc:literal;)+) => {
        /// A deliberate bug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Canary { $(#[doc = $doc] $variant,)+ }

        impl Canary {
            /// Every canary.
            pub const ALL: [Canary; [$($name),+].len()] = [$(Canary::$variant,)+];

            /// As printed.
            pub fn name(self) -> &'static str {
                match self { $(Canary::$variant => $name,)+ }
            }

            /// Checkers of which one must catch it.
            pub fn checkers(self) -> &'static [&'static str] {
                match self { $(Canary::$variant => &$checkers,)+ }
            }
        }
    };
}

canaries! {
    AppendBeforePlan = "append before the plan commits", ["N1", "N2"],
        "A turn answers at once and commits a moment later, or never.";
    PlanUnfenced = "plan unfenced", ["F1"],
        "A turn takes whatever token the lane has.";
    RetryBySequence = "retry recognised by sequence", ["O1"],
        "A refused append counts as one that was there already.";
    AppendAboveRegister = "stream accepts a number above its register", ["N3"],
        "The register moves to whatever number comes.";
    SettleByPredicate = "settle by predicate", ["O1"],
        "A turn settles everything planned, not the exact rows that were acknowledged.";
    HoleForVoid = "hole instead of void marker", ["N3"],
        "A void number moves the register and leaves no entry.";
    UnknownIsDone = "unknown append counted as done", ["O1"],
        "An append whose reply is lost counts as carried out.";
    DedupeOutside = "dedupe outside the transaction", ["C1", "C2"],
        "The position commits after the effect, apart from it.";
    HandlerTwice = "handler runs twice in its transaction", ["C1"],
        "A batch is handed over again before its commit.";
    DropPrefix = "drop the prefix when isolating a failure", ["C2"],
        "The events before a failing one are not run again.";
    ApplyUnfenced = "apply unfenced", ["F1"],
        "The apply transaction takes whatever token the lane has.";
    OvertakeParked = "events overtake their parked key", ["C4"],
        "The apply transaction does not see that a key is parked.";
    PositionJumpsGap = "position jumps a gap", ["C2"],
        "A hole in the numbers is passed over.";
    CursorSkips = "cursor skips a gap", ["C5"],
        "An idle lane's cursor moves to the end of the stream, whatever was read.";
    ReleaseBeforeDrain = "release before drain", ["S1"],
        "A stopping process releases its lanes first and ends its work second.";
    RefillRenumbers = "refill with new numbers", ["N1"],
        "The archive does not keep numbers: history comes back in other ones.";
    AttemptsForgotten = "attempts forgotten", ["Quiet"],
        "Careful mode does not remember that an event ended a process.";
    AnnouncementForgotten = "announcement forgotten", ["Quiet"],
        "Careful mode does not see that an announced batch ended a process.";
    FirstIsBlamed = "first of a batch blamed", ["Quiet"],
        "A crash in an announced batch is blamed on the first event of a lane.";
    RolledBackPublished = "a rolled-back transaction leaves its events", ["O2"],
        "Events are written whether or not their transaction commits.";
    WrittenBackwards = "events of a transaction written backwards", ["O3"],
        "A transaction's events get their places in another order than they were given.";
    OutageIsPoison = "an outage counted as poison", ["O4"],
        "A stream that is full has its events parked.";
    SentAgain = "an append sent again and again", ["O5"],
        "Below the relay each append is repeated, whatever was answered.";
    PositionGoesBack = "position goes back", ["C3"],
        "After a commit the position is written again from what was read before.";
    FailureEndsBatch = "a failure ends its batch", ["C6"],
        "What follows a failing event in its batch is left undone, and nobody is told.";
    CutGoesOn = "a process that was cut goes on", ["S2"],
        "The bound of a drain, or a second signal, does not end the process.";
    ReleaseForgotten = "release answered and not committed", ["S3"],
        "A leaving relay is told that its lanes are free; they are not.";
    VoidsUncounted = "void markers not counted", ["Q1"],
        "The books leave out the numbers that stand for nothing.";
    EffectOfDeadLetter = "a dead letter keeps its effect", ["Q2"],
        "What a failing event wrote is not rolled back.";
    RedriveApplies = "a redrive applies by itself", ["Q4"],
        "A decision runs the handler outside the apply transaction.";
    MessageInClear = "message in clear", ["Q3"],
        "Dead letters keep messages as the handler wrote them.";
}
